"""What comes after a batch that failed for good: in order, once, and told truthfully."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]

from aioproducer import DeliveryTimeoutError, Producer, RecordMetadata, errors

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka

PRODUCE, INIT_PRODUCER_ID = 0, 22
NOT_LEADER, TOO_LARGE, NOT_ENOUGH_REPLICAS = 6, 10, 19
AFTER_APPEND, TOPIC_REFUSED, OUT_OF_ORDER, DUPLICATE = 20, 29, 45, 46
UNKNOWN_PRODUCER_ID, INVALID_EPOCH, INVALID_RECORD = 59, 47, 87
PATIENCE = 60.0
QUICK: dict[str, Any] = {
    "linger_ms": 0,
    "batch_size": 100,
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
}
Sent = asyncio.Future[RecordMetadata]


def value(number: int) -> bytes:
    """Large enough for a batch of its own."""
    return b"%04d" % number * 15


def numbers(kafka: FakeKafka) -> list[tuple[int, int, int]]:
    """Producer id, epoch and sequence of each batch that came in."""
    found = []
    for request in kafka.requests(PRODUCE):
        for topic in request.body.topic_data:
            for data in topic.partition_data:
                batch = MemoryRecords(bytes(data.records)).next_batch()
                found.append((batch.producer_id, batch.producer_epoch, batch.base_sequence))
    return found


async def settled(futures: list[Sent]) -> None:
    await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), PATIENCE)


async def settled_together(
    kafka: FakeKafka, producer: Producer, batches: int, *faults: dict[str, Any], received: int
) -> list[Sent]:
    """The records 1 to ``batches``, with their outcomes.

    The first of ``faults`` is told when so many of their requests were received.
    """
    told = asyncio.Event()
    first, *others = faults
    kafka.answers.append(kafka.Answer(**first, hold=told))
    kafka.answers.extend(kafka.Answer(**each) for each in others)
    futures = [producer.send("orders", value(number)) for number in range(1, batches + 1)]
    await kafka.until_received(PRODUCE, 1 + received)
    told.set()
    await settled(futures)
    return futures


@pytest.mark.parametrize("code", [INVALID_RECORD, TOPIC_REFUSED, 10, INVALID_EPOCH, 48, -1])
async def test_what_follows_a_refused_batch_is_delivered_in_a_new_epoch(
    kafka: FakeKafka, code: int
) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.answers.extend([kafka.Answer(), kafka.Answer(error=code)])
        futures = [producer.send("orders", value(n)) for n in range(1, 7)]
        await settled(futures)
        failed = futures[1].exception()
        assert isinstance(failed, errors.KafkaError)
        assert failed.code == code
        assert failed.may_have_been_written is (code == -1)
        assert (await producer.send("orders", value(7))).offset == 6
    assert kafka.values("orders") == [value(n) for n in (0, 1, 3, 4, 5, 6, 7)]
    assert len(kafka.requests(INIT_PRODUCER_ID)) == 1, "the epoch grows on this side"
    assert {each[:2] for each in numbers(kafka)} == {(1000, 0), (1000, 1)}
    assert numbers(kafka)[-1] == (1000, 1, 4)


async def test_a_refused_batch_holds_up_its_own_partition_alone(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    never = asyncio.Event()
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=100_000, **QUICK
    ) as producer:
        for partition in (0, 1):
            await producer.send("orders", value(0), partition=partition)
        kafka.answers.append(kafka.Answer(hold=never))
        held = producer.send("orders", value(1), partition=1)
        await kafka.until_received(PRODUCE, 3)
        kafka.answers.append(kafka.Answer(error=INVALID_RECORD))
        with pytest.raises(errors.InvalidRecordError):
            await producer.send("orders", value(1), partition=0)
        sent = await asyncio.wait_for(producer.send("orders", value(2), partition=0), PATIENCE)
        assert sent.offset == 1
        assert not held.done()
        never.set()
        await held


async def test_what_was_given_up_is_not_written_behind_what_follows(kafka: FakeKafka) -> None:
    """Its request is still at the broker, which takes it up when the next batch is written."""
    release = asyncio.Event()
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        request_timeout_ms=1_000,
        delivery_timeout_ms=2_000,
        **QUICK,
    ) as producer:
        await producer.send("orders", value(0))
        kafka.answers.extend([kafka.Answer(late=release)] * 9)
        with pytest.raises(DeliveryTimeoutError) as lost:
            await producer.send("orders", value(1))
        assert lost.value.may_have_been_written
        kafka.answers.clear()
        assert (await asyncio.wait_for(producer.send("orders", value(2)), PATIENCE)).offset == 1
        release.set()
        await asyncio.wait_for(asyncio.gather(*kafka.late), PATIENCE)
    assert kafka.values("orders") == [value(0), value(2)]


async def test_a_batch_in_doubt_that_was_written_leaves_no_gap(kafka: FakeKafka) -> None:
    """The batches behind it are sent with their own numbers, so none is written twice."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        request_timeout_ms=1_000,
        delivery_timeout_ms=2_000,
        **QUICK,
    ) as producer:
        await producer.send("orders", value(0))
        lie = kafka.Answer(silent_after_writing=True)
        kafka.answers.extend([lie, lie])
        first = producer.send("orders", value(1))
        await kafka.until_received(PRODUCE, 2)
        await asyncio.sleep(0.75)
        kafka.answers.extend([lie] * 9)
        second = producer.send("orders", value(2))
        with pytest.raises(DeliveryTimeoutError):
            await asyncio.wait_for(asyncio.shield(first), PATIENCE)
        kafka.answers.clear()
        await settled([second])
        await settled([producer.send("orders", value(3))])
    assert kafka.values("orders")[:2] == [value(0), value(1)]
    assert len(set(kafka.values("orders"))) == len(kafka.values("orders"))


async def test_an_earlier_batch_in_doubt_keeps_its_number_when_a_later_one_is_refused(
    kafka: FakeKafka,
) -> None:
    """It was written, and says so only when it is sent again as it was."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.answers.extend([kafka.Answer(lie=AFTER_APPEND), kafka.Answer(error=INVALID_RECORD)])
        futures = [producer.send("orders", value(n)) for n in range(1, 6)]
        await settled(futures)
    assert [type(future.exception()).__name__ for future in futures].count("NoneType") == 4
    assert kafka.values("orders") == [value(n) for n in (0, 1, 3, 4, 5)]
    assert [future.result().offset for future in (futures[0], *futures[2:])] == [1, 2, 3, 4]


@pytest.mark.parametrize("written", [True, False])
async def test_what_follows_a_refused_batch_is_asked_for_if_it_may_be_written(
    kafka: FakeKafka, written: bool
) -> None:
    """A broker that has forgotten the producer takes it, whatever is missing."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        if written:
            kafka.topics["orders"][0].producers.expire()
        lost = {"lie" if written else "error": AFTER_APPEND}
        futures = await settled_together(
            kafka, producer, 5, {"error": INVALID_RECORD}, lost, received=3
        )
        assert isinstance(futures[0].exception(), errors.InvalidRecordError)
        assert [future.result().offset for future in futures[1:]] == [1, 2, 3, 4]
    assert kafka.values("orders") == [value(number) for number in (0, 2, 3, 4, 5)]


async def test_answers_about_what_follows_a_refused_batch_need_no_backoff(
    kafka: FakeKafka,
) -> None:
    options = QUICK | {"retry_backoff_ms": 500, "retry_backoff_max_ms": 60_000}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", value(0))
        lost = [{"error": AFTER_APPEND}] * 4
        async with asyncio.timeout(2):  # the backoff of the first attempts, and none of 1 s after
            futures = await settled_together(
                kafka, producer, 5, {"error": INVALID_RECORD}, *lost, received=5
            )
        assert [future.result().offset for future in futures[1:]] == [1, 2, 3, 4]


async def test_what_follows_a_refused_batch_keeps_its_order_at_a_broker_that_forgot(
    kafka: FakeKafka,
) -> None:
    """It would write the batch that is asked for before one that was certainly not written."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.topics["orders"][0].producers.expire()
        faults = {"error": INVALID_RECORD}, {"error": NOT_ENOUGH_REPLICAS}, {"cut": True}
        futures = await settled_together(kafka, producer, 4, *faults, received=3)
        assert [future.result().offset for future in futures[1:]] == [1, 2, 3]
    assert kafka.values("orders") == [value(number) for number in (0, 2, 3, 4)]


@pytest.mark.parametrize("last_lost", [True, False])
async def test_what_a_restarted_broker_wrote_behind_a_gap_is_not_written_twice(
    kafka: FakeKafka, last_lost: bool
) -> None:
    """It had forgotten the producer, wrote two batches, and remembers only the second one."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        all_sent, both_written = asyncio.Event(), asyncio.Event()
        kafka.topics["orders"][0].producers.expire()
        lost = kafka.Answer(lie=AFTER_APPEND)
        kafka.answers.extend(
            [
                kafka.Answer(error=INVALID_RECORD, hold=all_sent),
                lost,
                lost if last_lost else kafka.Answer(),
                kafka.Answer(hold=both_written),
            ]
        )
        futures = [producer.send("orders", value(number)) for number in range(1, 5)]
        await kafka.until_received(PRODUCE, 5)
        all_sent.set()
        await kafka.until(lambda: len(kafka.values("orders")) == 3)
        restart(kafka)
        both_written.set()
        await settled(futures)
        doubtful = futures[1].exception()
        assert isinstance(doubtful, errors.OutOfOrderSequenceNumberError)
        assert doubtful.may_have_been_written
        assert [future.result().offset for future in futures[2:]] == [2, 3]
        assert (await producer.send("orders", value(5))).offset == 4
    assert kafka.values("orders") == [value(number) for number in (0, 2, 3, 4, 5)]


async def test_what_may_be_written_behind_a_gap_is_split_and_not_written_twice(
    kafka: FakeKafka,
) -> None:
    """A broker does not know the parts of a batch that it wrote as a whole."""
    options = QUICK | {"batch_size": 200}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", value(0))
        all_sent = asyncio.Event()
        kafka.topics["orders"][0].producers.expire()
        kafka.answers.extend(
            [
                kafka.Answer(error=INVALID_RECORD, hold=all_sent),
                kafka.Answer(lie=AFTER_APPEND),
                kafka.Answer(error=TOO_LARGE),
            ]
        )
        refused = producer.send("orders", b"refused" * 20)
        await kafka.until_received(PRODUCE, 2)
        futures = [producer.send("orders", b"%d" % number) for number in range(2)]
        await kafka.until_received(PRODUCE, 3)
        all_sent.set()
        await settled([refused, *futures])
        for future in futures:
            doubtful = future.exception()
            assert isinstance(doubtful, errors.OutOfOrderSequenceNumberError)
            assert doubtful.may_have_been_written
        assert (await producer.send("orders", b"last")).offset == 3
    assert kafka.values("orders") == [value(0), b"0", b"1", b"last"]


async def test_a_batch_behind_a_gap_tells_nothing_of_one_before_it(kafka: FakeKafka) -> None:
    """Another producer wrote where the first batch might be."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.topics["orders"][0].producers.expire()
        kafka.write("orders", 0, b"of another producer")
        faults = {"error": NOT_LEADER}, {"error": INVALID_RECORD}
        futures = await settled_together(kafka, producer, 3, *faults, received=3)
        doubtful = futures[0].exception()
        assert isinstance(doubtful, errors.OutOfOrderSequenceNumberError)
        assert doubtful.may_have_been_written
        assert futures[2].result().offset == 2
    assert value(1) not in kafka.values("orders")


async def test_a_batch_that_failed_in_doubt_leaves_no_room_for_an_earlier_one(
    kafka: FakeKafka,
) -> None:
    """A broker that forgot the producer wrote the second batch, and the third one behind it."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.topics["orders"][0].producers.expire()
        faults = {"error": NOT_LEADER}, {"lie": -1}, dict[str, Any]()
        futures = await settled_together(kafka, producer, 3, *faults, received=3)
        for future in futures[:2]:
            doubtful = future.exception()
            assert isinstance(doubtful, errors.ProducerError)
            assert doubtful.may_have_been_written
        assert futures[2].result().offset == 2
        assert (await producer.send("orders", value(4))).offset == 3
    assert kafka.values("orders") == [value(number) for number in (0, 2, 3, 4)]


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER_ID])
async def test_a_broker_that_lost_its_memory_of_the_producer(kafka: FakeKafka, code: int) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        kafka.answers.append(kafka.Answer(error=code))
        futures = [producer.send("orders", value(n)) for n in range(1, 8)]
        await settled(futures)
    assert [future.result().offset for future in futures] == list(range(1, 8))
    assert kafka.values("orders") == [value(n) for n in range(8)]
    assert max(numbers(kafka))[:2] == (1000, 1)


async def unanswered(kafka: FakeKafka, producer: Producer, batches: int) -> list[Sent]:
    """The records 1 to ``batches``, written behind an answered record, and without a response."""
    await producer.send("orders", value(0))
    kafka.answers.extend([kafka.Answer(silent_after_writing=True)] * batches)
    futures = [producer.send("orders", value(number)) for number in range(1, batches + 1)]
    await kafka.until(lambda: len(kafka.values("orders")) == batches + 1)
    return futures


def restart(kafka: FakeKafka) -> None:
    """As a broker that was stopped and started: its snapshot has a producer's last batch alone."""
    kafka.topics["orders"][0].forget_memory()


async def test_a_restarted_broker_knows_earlier_batches_by_the_last_one(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=100_000, **QUICK
    ) as producer:
        futures = await unanswered(kafka, producer, 4)
        restart(kafka)
        await kafka.servers[1].cut()
        await settled(futures)
        assert [future.result().offset for future in futures] == [-1, -1, -1, 4]
        assert (await producer.send("orders", value(5))).offset == 5
    assert kafka.values("orders") == [value(number) for number in range(6)]


async def test_a_last_batch_that_the_broker_calls_a_duplicate_tells_of_earlier_ones(
    kafka: FakeKafka,
) -> None:
    """Old brokers answer with an error, without an offset."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=100_000, **QUICK
    ) as producer:
        futures = await unanswered(kafka, producer, 3)
        kafka.answers.extend([kafka.Answer(error=OUT_OF_ORDER)] * 2)
        kafka.answers.append(kafka.Answer(error=DUPLICATE))
        await kafka.servers[1].cut()
        await settled(futures)
        assert [future.exception() for future in futures] == [None] * 3
        await producer.send("orders", value(4))
    assert kafka.values("orders") == [value(number) for number in range(5)]


async def test_a_restarted_broker_knows_an_earlier_batch_by_one_that_was_delivered(
    kafka: FakeKafka,
) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", value(0))
        both = asyncio.Event()
        kafka.answers.append(kafka.Answer(lie=AFTER_APPEND, hold=both))
        kafka.answers.append(kafka.Answer())
        kafka.answers.append(kafka.Answer(error=OUT_OF_ORDER))
        futures = [producer.send("orders", value(number)) for number in range(1, 3)]
        await kafka.until_received(PRODUCE, 3)
        both.set()
        await settled(futures)
        assert [future.result().offset for future in futures] == [-1, 2]
        assert (await producer.send("orders", value(3))).offset == 3
    assert kafka.values("orders") == [value(number) for number in range(4)]


async def test_what_no_broker_knows_is_not_written_twice(kafka: FakeKafka) -> None:
    """The broker refuses each of the batches that it may have written."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=100_000, **QUICK
    ) as producer:
        futures = await unanswered(kafka, producer, 3)
        kafka.answers.extend([kafka.Answer(error=OUT_OF_ORDER)] * 20)
        await kafka.servers[1].cut()
        await settled(futures)
        kafka.answers.clear()
        for future in futures:
            failed = future.exception()
            assert isinstance(failed, errors.OutOfOrderSequenceNumberError)
            assert failed.may_have_been_written
        await producer.send("orders", value(4))
    assert kafka.values("orders") == [value(number) for number in range(5)]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("halves", [1, 2])
async def test_a_batch_that_may_be_written_is_split_and_not_written_twice(
    kafka: FakeKafka, written: bool, halves: int
) -> None:
    options = QUICK | {"batch_size": 2_000}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        await producer.send("orders", b"first")
        lost = kafka.Answer(cut_after_writing=True) if written else kafka.Answer(cut=True)
        kafka.answers.extend([lost, *[kafka.Answer(error=10)] * halves])
        futures = [producer.send("orders", value(number)) for number in range(10)]
        await settled(futures)
        for future in futures:
            failed = future.exception()
            assert (failed is not None) is written
            if failed is not None:
                assert isinstance(failed, errors.ProducerError)
                assert failed.may_have_been_written
        assert (await producer.send("orders", b"last")).offset == 11
    assert kafka.values("orders") == [b"first", *map(value, range(10)), b"last"]
