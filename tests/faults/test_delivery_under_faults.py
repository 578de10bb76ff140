"""Order, nothing lost and nothing twice, whatever strict brokers, or a proxy, do."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import DeliveryTimeoutError, Producer, ProducerError, RecordMetadata, errors
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.testing.fault_proxy import (
    ANYWHERE,
    END,
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Delay,
    Fault,
    FaultProxy,
    FaultScript,
    HalfClose,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)
from tests.support.inside import accumulator_of

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy
    from tests.support.fake_kafka import FakeKafka


PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
NOT_LEADER, NOT_ENOUGH_REPLICAS, INVALID_RECORD = 6, 19, 87
PATIENCE = 60.0
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
}


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_order_across_the_metadata_wait_and_the_fast_path(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = []
        for value in numbers(3000):
            futures.append(producer.send("orders", value))
            if len(futures) % 100 == 0:
                await asyncio.sleep(0)
        await producer.flush(PATIENCE)
    assert kafka.values("orders") == numbers(3000)
    assert [future.result().offset for future in futures] == list(range(3000))


async def test_order_across_the_memory_wait(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, buffer_memory=40_000, batch_size=1_000
    ) as producer:
        waited = 0
        for number, value in enumerate(numbers(5000)):
            # every third time by way of the line, without drain
            producer.send("orders", value)
            waited += bool(accumulator_of(producer).pending)
            if number % 300 == 0 or accumulator_of(producer).waiters.is_full:
                await producer.drain()
        await producer.flush(PATIENCE)
        assert waited > 20
    assert kafka.values("orders") == numbers(5000)


async def test_send_many_waits_for_room_for_large_records_too(kafka: FakeKafka) -> None:
    values = [bytes(4_000), bytes(9_000), bytes(9_000)]
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, buffer_memory=48_000, batch_size=2_000
    ) as producer:
        report = await asyncio.wait_for(producer.send_many("orders", values), PATIENCE)
    assert (report.delivered, report.failed) == (3, 0)


async def test_order_with_records_of_very_different_sizes(kafka: FakeKafka) -> None:
    random = Random(7)
    values = [b"%06d" % n + bytes(random.choice([0, 10, 500, 5_000, 9_000])) for n in range(800)]
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, buffer_memory=60_000, batch_size=2_000
    ) as producer:
        await producer.send("orders", b"first")
        report = await asyncio.wait_for(producer.send_many("orders", values), PATIENCE)
    assert report.delivered == 800
    values.insert(0, b"first")
    assert kafka.values("orders") == values


ERRORS = {
    "answered with an error": {"error": NOT_ENOUGH_REPLICAS},
    "cut before writing": {"cut": True},
    "cut after writing": {"cut_after_writing": True},
    "never answered": {"silent": True},
    "written, never answered": {"silent_after_writing": True},
    "says failed, but wrote": {"lie": 20},
    "unreadable answer": {"change": lambda frame: frame[:8] + b"\xff" * (len(frame) - 8)},
    "wrong correlation id": {"change": lambda frame: frame[:4] + b"\0\0\0\7" + frame[8:]},
    "partition missing in the answer": {"leave_out": True},
}


@pytest.mark.parametrize("fault", ERRORS.values(), ids=ERRORS)
async def test_a_lone_batch_is_written_once(kafka: FakeKafka, fault: dict[str, Any]) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        request_timeout_ms=150,
        delivery_timeout_ms=10_000,
        **QUICK,
    ) as producer:
        assert (await producer.send("orders", b"first")).offset == 0
        kafka.answers.extend([kafka.Answer(**fault)] * 2)
        sent = await asyncio.wait_for(producer.send("orders", b"once"), PATIENCE)
        assert sent.offset == 1
        assert (await producer.send("orders", b"next")).offset == 2
    assert kafka.values("orders") == [b"first", b"once", b"next"]


@pytest.mark.parametrize("fault", ERRORS.values(), ids=ERRORS)
async def test_pipelined_batches_keep_their_order_across_retries(
    start_kafka: StartKafka, fault: dict[str, Any]
) -> None:
    kafka = await start_kafka(1, {"orders": 1})
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        batch_size=200,
        request_timeout_ms=150,
        delivery_timeout_ms=20_000,
        linger_ms=0,
        **QUICK,
    ) as producer:
        await producer.send("orders", b"-")
        random = Random(str(fault))
        for _ in range(40):
            kafka.answers.append(kafka.Answer(**(fault if random.random() < 0.15 else {})))
        futures: list[asyncio.Future[RecordMetadata]] = []
        for value in numbers(600):
            futures.append(producer.send("orders", value))
            if len(futures) % 10 == 0:
                await asyncio.sleep(0)
        await producer.flush(PATIENCE)
    assert kafka.values("orders")[1:] == numbers(600)
    assert not [future.exception() for future in futures if future.exception()]
    assert kafka.most_in_flight <= 5


async def test_a_batch_whose_answers_lie_twice_is_written_once(kafka: FakeKafka) -> None:
    """Brokers remember five batches, so no more than that may be written after a doubtful one."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, batch_size=100, linger_ms=0, **QUICK
    ) as producer:
        await producer.send("orders", b"-")
        doubtful, fine = kafka.Answer(lie=20), kafka.Answer()
        kafka.answers.extend([doubtful, *[fine] * 4, doubtful, *[fine] * 4, doubtful])
        futures = [producer.send("orders", b"%02d" % n * 30) for n in range(30)]
        await producer.flush(PATIENCE)
    assert not [future.exception() for future in futures if future.exception()]
    assert kafka.values("orders")[1:] == [b"%02d" % n * 30 for n in range(30)]


async def test_five_requests_are_in_flight_and_no_more(kafka: FakeKafka) -> None:
    gate = asyncio.Event()
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, batch_size=100, linger_ms=0
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.extend([kafka.Answer(hold=gate)] * 30)
        futures = [producer.send("orders", bytes(60)) for _ in range(20)]
        await kafka.until_received(PRODUCE, 6)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(kafka.requests(PRODUCE)) == 6  # the first one, and five
        assert producer.metrics()["producer-metrics"]["requests-in-flight"] == 5.0
        gate.set()
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    assert kafka.most_in_flight == 5


@pytest.mark.parametrize("limit", [1, 2])
async def test_max_in_flight_is_an_option(kafka: FakeKafka, limit: int) -> None:
    gate = asyncio.Event()
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        batch_size=100,
        max_in_flight_requests_per_connection=limit,
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.extend([kafka.Answer(hold=gate)] * 5)
        futures = [producer.send("orders", bytes(60)) for _ in range(10)]
        await kafka.until_received(PRODUCE, 1 + limit)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(kafka.requests(PRODUCE)) == 1 + limit
        gate.set()
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    assert kafka.most_in_flight == limit


async def test_one_in_flight_keeps_order_without_idempotence(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,
        batch_size=200,
        **QUICK,
    ) as producer:
        await producer.send("orders", b"-")
        kafka.answers.extend(kafka.Answer(error=19 if n % 2 else 0) for n in range(20))
        for value in numbers(300):
            producer.send("orders", value)
        await producer.flush(PATIENCE)
    assert kafka.values("orders")[1:] == numbers(300)


async def test_a_refused_batch_among_others_in_flight(kafka: FakeKafka) -> None:
    """The batches after it had sequence numbers that no longer fit; they are numbered anew."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, batch_size=100, linger_ms=0, **QUICK
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.extend([kafka.Answer(), kafka.Answer(error=INVALID_RECORD)])
        futures = [producer.send("orders", b"%d" % n * 60) for n in range(5)]
        await producer.flush(PATIENCE)
    assert isinstance(futures[1].exception(), errors.InvalidRecordError)
    written = [value[:1] for value in kafka.values("orders")[1:] if value]
    assert written == [b"0", b"2", b"3", b"4"]
    assert [f.result().offset for f in (futures[0], *futures[2:])] == [1, 2, 3, 4]


async def test_an_error_code_of_tomorrow_fails_its_batch_at_once(kafka: FakeKafka) -> None:
    """It is an error of one partition, and no reason to distrust the whole answer."""
    stand_in, tomorrow = b"\x00\x85", (9999).to_bytes(2, "big")
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(
            kafka.Answer(error=0x85, change=lambda frame: frame.replace(stand_in, tomorrow))
        )
        with pytest.raises(errors.KafkaError, match="ERROR_9999") as caught:
            await asyncio.wait_for(producer.send("orders", b"odd"), PATIENCE)
        assert caught.value.code == 9999
        assert caught.value.may_have_been_written, "nobody knows what the code says"
        assert (await producer.send("orders", b"next")).offset == 1
    assert len({each.connection for each in kafka.requests(PRODUCE)}) == 1


async def test_each_refused_record_has_its_own_reason(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, linger_ms=20, **QUICK
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(
            kafka.Answer(
                error=INVALID_RECORD,
                message="one or more records were rejected",
                record_errors={1: "no key", 3: "too old"},
            )
        )
        futures = [producer.send("orders", value) for value in numbers(5)]
        await producer.flush(PATIENCE)
    texts = [str(future.exception()) for future in futures]
    assert all(isinstance(each.exception(), errors.InvalidRecordError) for each in futures)
    assert "no key" in texts[1]
    assert "too old" in texts[3]
    assert all("other records of its batch" in texts[index] for index in (0, 2, 4))
    assert kafka.values("orders") == [b"first"]


async def test_the_hinted_leader_gets_it_at_once(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(3, {"orders": 1})
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        retry_backoff_ms=5_000,
        retry_backoff_max_ms=5_000,
    ) as producer:
        await producer.send("orders", b"0")
        kafka.lead("orders", 0, 3)
        kafka.mute.add(METADATA)  # the hint is all there is
        futures = [producer.send("orders", value) for value in numbers(5)]
        sent = await asyncio.wait_for(asyncio.gather(*futures), 60)
        assert [each.offset for each in sent] == [1, 2, 3, 4, 5]
    assert [each.broker for each in kafka.requests(PRODUCE)][:2] == [1, 1]
    assert kafka.requests(PRODUCE)[-1].broker == 3


async def test_the_leader_moves_all_the_time(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(3, {"orders": 2})
    random = Random(11)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, batch_size=300, linger_ms=0, **QUICK
    ) as producer:
        for number, value in enumerate(numbers(1500)):
            producer.send("orders", value, partition=number % 2)
            if number % 25 == 0:
                await asyncio.sleep(0)
            if number % 100 == 0:
                kafka.lead("orders", random.randrange(2), random.randint(1, 3))
                kafka.hints = random.random() < 0.5
        await producer.flush(PATIENCE)
    for partition in range(2):
        assert kafka.values("orders", partition) == numbers(1500)[partition::2]


async def test_brokers_go_and_come_back(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        futures = []
        for number, value in enumerate(numbers(1000)):
            futures.append(producer.send("orders", value, partition=number % 2))
            if number % 200 == 100:
                await kafka.servers[1 + number // 200 % 2].stop()
            elif number % 200 == 199:
                await kafka.servers[1 + number // 200 % 2].start()
            elif number % 20 == 0:
                await asyncio.sleep(0.001)
        await producer.flush(PATIENCE)
    assert not [future.exception() for future in futures if future.exception()]
    for partition in range(2):
        assert kafka.values("orders", partition) == numbers(1000)[partition::2]


async def test_throttle_time_is_honoured(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(throttle_ms=300))
        await producer.send("orders", b"throttled")
        await producer.send("orders", b"after")
        assert producer.metrics()["producer-metrics"]["produce-throttle-time-max"] == 300.0
    before, after = (request.at for request in kafka.requests(PRODUCE)[1:])
    assert after - before >= 0.3


async def test_acks_0_completes_at_once_and_1_with_the_leader(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, acks="0") as producer:
        sent = await producer.send("orders", b"zero")
        assert (sent.partition, sent.offset) == (0, -1)
        report = await producer.send_many("orders", numbers(100))
        assert report.delivered == 100
    await kafka.until(lambda: len(kafka.values("orders")) == 101)
    assert {each.body.acks for each in kafka.requests(PRODUCE)} == {0}
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, acks="1") as producer:
        assert (await producer.send("orders", b"one")).offset >= 0
    assert kafka.requests(PRODUCE)[-1].body.acks == 1
    assert set(kafka.values("orders")) == {b"zero", b"one", *numbers(100)}


@pytest.mark.parametrize("version", [7, 8, 9, 10, 11, 12, 13])
async def test_every_version_of_produce(start_kafka: StartKafka, version: int) -> None:
    kafka = await start_kafka(2, {"orders": 2}, versions={PRODUCE: (3, version)})
    kafka.hints = version >= 10
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        for number in range(4):
            await producer.send("orders", b"%d" % number, partition=number % 2)
        kafka.lead("orders", 0, 2)
        assert (await producer.send("orders", b"4", partition=0)).offset == 2
    assert {each.version for each in kafka.requests(PRODUCE)} == {version}


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9, 10, 11, 12])
async def test_every_version_of_metadata(start_kafka: StartKafka, version: int) -> None:
    kafka = await start_kafka(1, {"orders": 1}, versions={METADATA: (0, version)})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        assert (await producer.send("orders", b"v")).offset == 0
    assert {each.version for each in kafka.requests(METADATA)} == {version}


async def test_what_expired_in_flight_does_not_stop_what_follows(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        request_timeout_ms=1_000,
        delivery_timeout_ms=2_000,
        **QUICK,
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.extend([kafka.Answer(silent=True)] * 3)
        lost = producer.send("orders", b"lost")
        with pytest.raises(DeliveryTimeoutError, match="orders-0"):
            await asyncio.wait_for(asyncio.shield(lost), PATIENCE)
        kafka.answers.clear()
        assert (await asyncio.wait_for(producer.send("orders", b"next"), PATIENCE)).offset == 1
    assert kafka.values("orders") == [b"first", b"next"]


async def test_linger_gathers_a_request(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=4_000) as producer:
        futures = [producer.send("orders", b"0")]
        await kafka.until_received(METADATA)
        for value in numbers(20):
            futures.append(producer.send("orders", value))
            await asyncio.sleep(0.001)
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    (request,) = kafka.requests(PRODUCE)
    assert request.at - kafka.requests(METADATA)[0].at >= 3.9


@pytest.mark.parametrize("linger_ms", [None, 30])
async def test_a_lone_record_leaves_at_once_by_default(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, linger_ms: int | None
) -> None:
    """No timer ends the sender's sleep for its request, as the end of a linger does."""
    ended_by_timer = 0
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def counted(delay: float, callback: Any, *given: Any, **named: Any) -> asyncio.TimerHandle:
        wakeup: Any = getattr(callback, "__self__", None)

        def ring(*given: Any) -> None:
            nonlocal ended_by_timer
            sleeper = wakeup._sleeper
            callback(*given)
            ended_by_timer += sleeper is not None and sleeper.done()

        return call_later(delay, ring if type(wakeup) is Wakeup else callback, *given, **named)

    async with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=linger_ms) as producer:
        await producer.send("orders", b"first")
        monkeypatch.setattr(loop, "call_later", counted)
        for number in range(30):
            await producer.send("orders", b"%d" % number)
        monkeypatch.undo()
    if linger_ms is None:  # a connection in its first second is looked at a few times
        assert ended_by_timer < 20
    else:
        assert ended_by_timer > 20
    assert len(kafka.requests(PRODUCE)) == 31


async def test_batches_grow_while_the_broker_is_busy(kafka: FakeKafka) -> None:
    gate = asyncio.Event()
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(hold=gate))
        futures = [producer.send("orders", b"busy")]
        await kafka.until_received(PRODUCE, 2)
        futures += [producer.send("orders", value) for value in numbers(50)]
        gate.set()
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    assert len(kafka.requests(PRODUCE)) == 3


async def test_batch_size_0_sends_records_one_by_one(kafka: FakeKafka) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=0) as producer:
        sent = await asyncio.gather(*(producer.send("orders", bytes(60)) for _ in range(20)))
    assert [each.offset for each in sent] == list(range(20))
    assert len(kafka.requests(PRODUCE)) == 20


async def test_retries_are_spaced(kafka: FakeKafka) -> None:
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=30, retry_backoff_max_ms=120
    ) as producer:
        await producer.send("orders", b"first")
        kafka.answers.extend([kafka.Answer(error=NOT_ENOUGH_REPLICAS)] * 4)
        await producer.send("orders", b"v")
    gaps = [later.at - earlier.at for earlier, later in pairwise(kafka.requests(PRODUCE)[1:])]
    for gap, backoff in zip(gaps, (0.03, 0.06, 0.12, 0.12), strict=True):
        assert gap >= 0.79 * backoff


async def test_a_failed_batch_is_told_in_one_line(
    kafka: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioproducer")
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK) as producer:
        await producer.send("orders", b"first")
        kafka.answers.append(kafka.Answer(error=29))
        with pytest.raises(errors.TopicAuthorizationFailedError):
            await producer.send("orders", b"v")
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 1


IMPATIENT: dict[str, Any] = {
    "retry_backoff_ms": 2,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 2,
    "reconnect_backoff_max_ms": 10,
    "request_timeout_ms": 100,
    "delivery_timeout_ms": 10_000,
    "max_block_ms": 10_000,
}
REQUEST, RESPONSE, CONNECTION = Way.REQUEST, Way.RESPONSE, Way.CONNECTION

PLAIN = (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID)
OF_TRANSACTIONS = tuple(api for api in ApiKey if api not in PLAIN)

FAULTS: dict[str, Fault] = {
    "cut before": Cut(0),
    "cut in the length": Cut(2),
    "cut in the header": Cut(6),
    "cut inside": Cut(20),
    "cut after": Cut(END),
    "reset before": Reset(0),
    "reset inside": Reset(20),
    "reset after": Reset(END),
    "delayed": Delay(0.05),
    "delayed inside": Delay(0.05, at=10),
    "delayed for too long": Delay(0.25),
    "throttled": Throttle(2_000),
    "half-closed before": HalfClose(0),
    "half-closed after": HalfClose(END),
    "black hole": BlackHole(),
    "left out": Swallow(),
    "giant length": ClaimLength(),
    "negative length": ClaimLength(-1),
    "zero length": ClaimLength(0),
}
RESPONSE_FAULTS = FAULTS | {
    "wrong correlation id": Corrupt(4),
    "length of four billion": Corrupt(0),
}


async def proxied(kafka: FakeKafka, start_proxy: StartProxy, *rules: Rule) -> FaultProxy:
    proxy = await start_proxy(kafka.servers[1].port, FaultScript(rules, seed=5))
    kafka.advertised[1] = proxy.port
    return proxy


async def deliver(kafka: FakeKafka, proxy: FaultProxy, records: int = 6) -> None:
    async with Producer(bootstrap_servers=proxy.address, **IMPATIENT) as producer:
        for number in range(records):
            sent = await asyncio.wait_for(producer.send("orders", b"%d" % number), PATIENCE)
            assert sent.offset == number
    assert kafka.values("orders") == [b"%d" % number for number in range(records)]


async def counted(proxy: FaultProxy, fault: Fault) -> None:
    """What is delayed or throttled may still be on its way when the records have arrived."""
    async with asyncio.timeout(PATIENCE):
        await proxy.until(lambda: proxy.counts == {type(fault): 1})


@pytest.mark.parametrize("api", PLAIN)
@pytest.mark.parametrize("fault", RESPONSE_FAULTS.values(), ids=RESPONSE_FAULTS)
async def test_a_response_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, api))
    await deliver(kafka, proxy)
    await counted(proxy, fault)


@pytest.mark.parametrize("api", PLAIN)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_request_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, api, REQUEST))
    await deliver(kafka, proxy)
    await counted(proxy, fault)
    kafka.servers[1].failures.clear()  # it cannot read a frame of no bytes, and closes


@pytest.mark.parametrize("way", [REQUEST, RESPONSE])
@pytest.mark.parametrize("api", OF_TRANSACTIONS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_transaction_meets_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault, api: ApiKey, way: Way
) -> None:
    kafka.create_topic("events")
    proxy = await proxied(kafka, start_proxy, Rule(fault, api, way))
    async with Producer(
        bootstrap_servers=proxy.address, transactional_id="pay-7", **IMPATIENT
    ) as producer:
        for number in range(3):
            async with producer.transaction():
                producer.send("orders", b"%d" % number)
                await producer.send_offsets_to_transaction({("events", 0): number}, "readers")
    assert kafka.values("orders") == [b"%d" % number for number in range(3)]
    await counted(proxy, fault)
    kafka.servers[1].failures.clear()


@pytest.mark.parametrize(
    "fault",
    [Cut(), Reset(), Delay(0.05), Delay(0.25), Throttle(2_000), HalfClose(), BlackHole()],
    ids=repr,
)
async def test_connections_meet_a_fault(
    kafka: FakeKafka, start_proxy: StartProxy, fault: Fault
) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(fault, way=CONNECTION, count=2))
    await deliver(kafka, proxy)


async def test_resets_one_after_the_other(kafka: FakeKafka, start_proxy: StartProxy) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(Reset(), way=CONNECTION, count=8))
    await deliver(kafka, proxy)
    assert proxy.counts == {Reset: 8}


@pytest.mark.parametrize("seed", range(4))
async def test_connections_are_cut_all_the_time(
    start_kafka: StartKafka, start_proxy: StartProxy, seed: int
) -> None:
    kafka = await start_kafka(2, {"orders": 3})
    rules = [
        Rule(fault, way=way, count=None, probability=0.03)
        for fault in (Cut(ANYWHERE), Reset(ANYWHERE), Delay(0.01, ANYWHERE))
        for way in (REQUEST, RESPONSE)
    ]
    proxies = []
    for number, server in kafka.servers.items():
        proxy = await start_proxy(server.port, FaultScript(tuple(rules), seed))
        kafka.advertised[number] = proxy.port
        proxies.append(proxy)
    async with Producer(
        bootstrap_servers=[proxy.address for proxy in proxies], batch_size=200, **IMPATIENT
    ) as producer:
        futures = []
        for number in range(3000):
            futures.append(producer.send("orders", b"%d" % number, partition=number % 3))
            if number % 20 == 0:
                await asyncio.sleep(0)
        sent = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
    for partition in range(3):
        log = kafka.values("orders", partition)
        assert log == [b"%d" % number for number in range(partition, 3000, 3)]
    assert [each.offset for each in sent] == [number // 3 for number in range(3000)]
    assert sum(proxy.counts[Cut] for proxy in proxies) > 3


@pytest.mark.parametrize("way", [REQUEST, RESPONSE])
async def test_the_error_of_a_record_tells_the_truth(
    kafka: FakeKafka, start_proxy: StartProxy, way: Way
) -> None:
    proxy = await proxied(kafka, start_proxy)
    options = IMPATIENT | {"request_timeout_ms": 2_000, "delivery_timeout_ms": 3_000}
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        await producer.send("orders", b"0")
        proxy.add(Rule(BlackHole(), ApiKey.PRODUCE, way, count=None))
        with pytest.raises(DeliveryTimeoutError, match="orders-0") as raised:
            await asyncio.wait_for(producer.send("orders", b"1"), PATIENCE)
        # its request left, so whether it is in the log the producer cannot know
        assert getattr(raised.value, "may_have_been_written", True)
        proxy.play(FaultScript())
        kept = [b"0"] if way is REQUEST else [b"0", b"1"]
        assert kafka.values("orders") == kept
        sent = await asyncio.wait_for(producer.send("orders", b"2"), PATIENCE)
        assert sent.offset == len(kept)


async def test_a_record_that_never_left_fails(kafka: FakeKafka, start_proxy: StartProxy) -> None:
    proxy = await proxied(kafka, start_proxy, Rule(Reset(), way=CONNECTION, count=None))
    options = IMPATIENT | {"max_block_ms": 300}
    async with Producer(bootstrap_servers=proxy.address, **options) as producer:
        with pytest.raises(ProducerError):
            await asyncio.wait_for(producer.send("orders", b"0"), PATIENCE)
    assert kafka.values("orders") == []
