"""The hook ``on_failed``: each record whose delivery failed, once, whichever way it was sent."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from aioproducer import (
    DeliveryTimeoutError,
    FailedRecord,
    Producer,
    ProducerClosedError,
    ProducerConfig,
    ProducerError,
    ProducerRecord,
    ProducerTimeoutError,
    errors,
    sync,
)
from aioproducer.failed_records import (
    DeadLetter,
    DeadLetterFile,
    DeadLetterTopic,
    read_dead_letters,
)
from aioproducer.reader import Reader
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster
from tests.mock_cluster.started import PATIENCE, started

PRODUCE = 0
POLICY_VIOLATION, TOO_LARGE, UNAUTHORIZED = 44, 10, 29
QUICK: dict[str, Any] = {
    "delivery_timeout_ms": 1_000,
    "request_timeout_ms": 500,
    "max_block_ms": 500,
    "linger_ms": 0,
}


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2, "failed": 1}) as cluster:
        yield cluster


class Seen(list[FailedRecord]):
    """A hook that notes the failed records."""

    def __call__(self, record: FailedRecord) -> None:
        self.append(record)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self]


async def test_a_resolved_client_id_reads_no_file(
    orders: MockCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hunter2")
    literal = f"${{dir:{tmp_path}:token}}"
    monkeypatch.setenv("AIOPRODUCER_TEST_NAME", literal)
    name = "${env:AIOPRODUCER_TEST_NAME}"
    target = DeadLetterTopic("failed")
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, client_id=name, on_failed=target, **QUICK
    ) as producer:
        with pytest.raises(errors.PolicyViolationError):
            await producer.send("orders", b"v")
        handler: Any = target.handler_for(producer.config)
    assert producer.client_id == literal
    assert handler._own.client_id == f"{literal}-dead-letters"
    async with Reader("failed", bootstrap_servers=orders.bootstrap_servers, end="end") as reader:
        assert [record.value async for record in reader] == [b"v"]


async def test_a_refused_record(orders: MockCluster) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen)
    assert producer._core.routes.is_open, "the records take the fast path"
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    before = producer._core.routes.came
    future = producer.send("orders", b"v", key=b"k", partition=1)
    assert producer._core.routes.came == before + 1
    with pytest.raises(errors.PolicyViolationError) as raised:
        await future
    await producer.flush(PATIENCE)
    [record] = seen
    assert record[:5] == ("orders", 1, b"k", b"v", ())
    assert abs(record.timestamp_ms - time.time_ns() // 1_000_000) < 60_000
    assert type(record.error) is type(raised.value)
    assert not record.may_have_been_written
    assert (await producer.send("orders", b"fine", partition=1)).offset == 1
    await producer.close()
    assert len(seen) == 1


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_all_records_of_large_batches_in_their_order(orders: MockCluster, codec: Any) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen, compression_type=codec, batch_size=20_000)
    orders.push_request_errors(PRODUCE, *[UNAUTHORIZED] * 1_000)
    values = [b"%05d" % number * 20 for number in range(3_000)]
    for value in values:
        producer.send("orders", value, partition=0, headers={"h": value[:5]})
        await producer.drain()
    await producer.flush(PATIENCE)
    assert sorted(value or b"" for value in seen.values) == values
    assert all(record.headers == (("h", record.value[:5]),) for record in seen if record.value)
    await producer.close()


async def test_a_batch_that_was_split_before(orders: MockCluster) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen, linger_ms=100)
    orders.push_request_errors(PRODUCE, TOO_LARGE, *[POLICY_VIOLATION] * 20)
    values = [b"%d" % number for number in range(200)]
    futures = [producer.send("orders", value, partition=0) for value in values]
    await producer.flush(PATIENCE)
    failed = {value for value, future in zip(values, futures, strict=True) if future.exception()}
    assert len(seen) == len(failed) > 1
    assert set(seen.values) == failed
    await producer.close()


SENDINGS = {
    "values": lambda values: values,
    "records": lambda values: [ProducerRecord("orders", value) for value in values],
    "column": pyarrow.array,
    "rows": lambda values: pyarrow.table(
        {"value": values, "key": values, "timestamp": [5] * len(values)}
    ),
}


@pytest.mark.parametrize("kind", SENDINGS)
@pytest.mark.parametrize("shell", [Producer, sync.Producer])
async def test_send_many(orders: MockCluster, kind: str, shell: type[Any]) -> None:
    seen = Seen()
    orders.push_request_errors(PRODUCE, *[POLICY_VIOLATION] * 1_000)
    values = [b"%d" % number for number in range(700)]
    producer = shell(bootstrap_servers=orders.bootstrap_servers, on_failed=seen)
    if shell is Producer:
        async with producer:
            report = await producer.send_many("orders", SENDINGS[kind](values))
            await producer.flush(PATIENCE)
    else:

        def send() -> Any:
            with producer:
                report = producer.send_many("orders", SENDINGS[kind](values))
                producer.flush(PATIENCE)
                assert len(seen) == 700
                return report

        report = await asyncio.to_thread(send)
    assert report.failed == 700
    assert sorted(seen.values, key=lambda value: int(value or b"-1")) == values
    if kind == "rows":
        assert all(record.key == record.value and record.timestamp_ms == 5 for record in seen)


def test_the_blocking_shell(orders: MockCluster) -> None:
    seen = Seen()
    config = ProducerConfig(bootstrap_servers=orders.bootstrap_servers, on_failed=seen)
    with sync.Producer(config) as producer:
        producer.send("orders", b"first").result(PATIENCE)
        orders.push_request_errors(PRODUCE, *[POLICY_VIOLATION] * 3)
        for number in range(3):
            with pytest.raises(errors.PolicyViolationError):
                producer.send("orders", b"%d" % number).result(PATIENCE)
        producer.flush(PATIENCE)
        assert seen.values == [b"0", b"1", b"2"]


async def test_a_cluster_that_is_down(orders: MockCluster) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen, **QUICK)
    orders.set_broker_down(ALL_BROKERS)
    futures = [producer.send("orders", b"%d" % number, partition=1) for number in range(50)]
    await producer.flush(PATIENCE)
    assert all(isinstance(future.exception(), DeliveryTimeoutError) for future in futures)
    assert seen.values == [b"%d" % number for number in range(50)]
    await producer.close(0)


async def test_a_record_that_may_have_been_written(orders: MockCluster) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen, **QUICK)
    orders.push_request_errors(PRODUCE, *[DISCONNECT] * 1_000)
    future = producer.send("orders", b"v", partition=0)
    await producer.flush(PATIENCE)
    error = future.exception()
    assert isinstance(error, ProducerError)
    [record] = seen
    assert record.may_have_been_written is error.may_have_been_written is True
    await producer.close(0)


async def test_records_that_wait_for_an_unknown_topic(mock_cluster: MockCluster) -> None:
    mock_cluster.set_broker_down(ALL_BROKERS)
    seen = Seen()
    async with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, on_failed=seen, **QUICK
    ) as producer:
        first = producer.send("new", "text", key=bytearray(b"k"), headers={"h": b"1"})
        taken_back = producer.send("new", b"2")
        taken_back.cancel()
        await producer.flush(PATIENCE)
        error = first.exception()
        assert error is not None
        [record] = seen
        assert record[:5] == ("new", None, b"k", b"text", (("h", b"1"),))
        assert type(record.error) is type(error)


async def test_records_that_are_refused_at_the_call_or_cannot_be_serialized(
    orders: MockCluster,
) -> None:
    seen = Seen()

    def serializer(value: Any) -> bytes:
        raise ValueError(value)

    producer = await started(orders, on_failed=seen)
    with pytest.raises(errors.RecordTooLargeError):
        producer.send("orders", bytes(2_000_000))
    report = await producer.send_many("orders", [b"fine", bytes(2_000_000)])
    assert report.failed == 1
    await producer.close()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=serializer, on_failed=seen
    ) as other:
        with pytest.raises(errors.SerializationError):
            other.send("orders", 1)
    assert not seen


async def test_records_of_an_aborted_transaction(orders: MockCluster) -> None:
    seen = Seen()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        transactional_id="t",
        on_failed=seen,
        linger_ms=10_000,
    ) as producer:
        await producer.begin_transaction()
        dropped = producer.send("orders", b"dropped", partition=0)
        await producer.abort_transaction()
        assert isinstance(dropped.exception(), errors.TransactionAbortedError)
        assert not seen
        await producer.begin_transaction()
        orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
        producer.send("orders", b"refused", partition=0)
        with pytest.raises(errors.AbortableTransactionError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.flush(PATIENCE)
    assert seen.values == [b"refused"]


async def test_a_record_in_a_batch_whose_caller_has_gone(orders: MockCluster) -> None:
    seen = Seen()
    producer = await started(orders, on_failed=seen, linger_ms=50)
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    producer.send("orders", b"v", partition=0).cancel()
    await producer.flush(PATIENCE)
    assert seen.values == [b"v"], "a cancelled wait takes no record out of its batch"
    await producer.close()


# --- the end ---------------------------------------------------------------------------------


async def test_close_gives_its_undelivered_records_to_the_hook(orders: MockCluster) -> None:
    seen = Seen()

    async def hook(record: FailedRecord) -> None:
        await asyncio.sleep(0)
        seen(record)

    producer = await started(orders, on_failed=hook)
    orders.set_broker_down(ALL_BROKERS)
    futures = [producer.send("orders", b"%d" % number, partition=0) for number in range(100)]
    assert await producer.close(0.5) == 100
    assert all(isinstance(future.exception(), ProducerClosedError) for future in futures)
    assert len(seen) == 100


async def test_close_does_not_wait_for_a_hook_that_hangs(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def hook(_record: FailedRecord) -> None:
        await asyncio.get_running_loop().create_future()

    producer = await started(orders, on_failed=hook)
    orders.set_broker_down(ALL_BROKERS)
    future = producer.send("orders", b"v", partition=0)
    async with asyncio.timeout(PATIENCE):
        assert await producer.close(0.5) == 1
    assert isinstance(future.exception(), ProducerClosedError)
    assert "on_failed did not handle 1 failed record before" in caplog.text


@pytest.mark.parametrize("first", ["hook", "application"])
async def test_a_hook_may_close_its_producer(orders: MockCluster, first: str) -> None:
    seen, called, begun, done = Seen(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hook(record: FailedRecord) -> None:
        called.set()
        await begun.wait()
        await producer.close()
        seen(record)
        if len(seen) == 3:
            done.set()

    producer = await started(orders, on_failed=hook)
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    for value in (b"1", b"2", b"3"):
        producer.send("orders", value, partition=0)
    async with asyncio.timeout(PATIENCE):
        await called.wait()
        closing = None
        if first == "application":
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0.05)
            assert not closing.done()
        begun.set()
        await done.wait()
        await (closing or producer.close())
    assert seen.values == [b"1", b"2", b"3"]


async def test_flush_waits_for_the_hook_within_its_bound(orders: MockCluster) -> None:
    go = asyncio.Event()

    async def hook(_record: FailedRecord) -> None:
        await go.wait()

    producer = await started(orders, on_failed=hook)
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    future = producer.send("orders", b"v", partition=0)
    with pytest.raises(ProducerTimeoutError, match="on_failed did not handle 1 failed record"):
        await producer.flush(0.5)
    assert isinstance(future.exception(), errors.PolicyViolationError)
    flushed = asyncio.ensure_future(producer.flush())
    await asyncio.sleep(0)
    assert not flushed.done()
    go.set()
    await asyncio.wait_for(flushed, PATIENCE)
    await producer.close()


# --- the dead letter topic ---------------------------------------------------------------------


async def letters(cluster: MockCluster, count: int, topic: str = "failed") -> list[DeadLetter]:
    async with Reader(topic, bootstrap_servers=cluster.bootstrap_servers) as reader:
        found = []
        async with asyncio.timeout(PATIENCE):
            async for record in reader:
                found.append(DeadLetter.of_record(record))
                if len(found) == count:
                    return found
    raise AssertionError("the reader has ended")


async def test_a_dead_letter_topic(orders: MockCluster) -> None:
    producer = await started(orders, on_failed=DeadLetterTopic("failed"), client_id="shop")
    values = [b"%d" % number for number in range(600)]
    orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
    futures = [
        producer.send("orders", value, key=b"k", headers={"h": None}, partition=0)
        for value in values
    ]
    await producer.flush(PATIENCE)
    assert all(isinstance(each.exception(), errors.PolicyViolationError) for each in futures)
    found = await letters(orders, 600)
    assert [letter.value for letter in found] == values
    letter = found[0]
    assert (letter.topic, letter.partition, letter.key) == ("orders", 0, b"k")
    assert letter.headers == (("h", None),)
    assert letter.error_name == "PolicyViolationError"
    assert "POLICY_VIOLATION" in letter.error_message
    assert not letter.may_have_been_written
    report = await producer.send_many("orders", [each.record() for each in found])
    assert report.delivered == 600
    await producer.close()


async def test_a_dead_letter_topic_of_another_cluster_gets_the_records_of_a_cluster_down(
    orders: MockCluster,
) -> None:
    with MockCluster(brokers=1, topics={"failed": 1}) as other:
        hook = DeadLetterTopic("failed", bootstrap_servers=other.bootstrap_servers)
        producer = await started(orders, on_failed=hook, **QUICK)
        orders.set_broker_down(ALL_BROKERS)
        producer.send("orders", b"1", partition=0)
        producer.send("orders", b"2", partition=1)
        await producer.flush(PATIENCE)
        producer.send("orders", b"3", partition=1)
        assert await producer.close(4) == 0
        found = await letters(other, 3)
        assert sorted(letter.value or b"" for letter in found) == [b"1", b"2", b"3"]
        assert {letter.error_name for letter in found} <= {
            "DeliveryTimeoutError",
            "BufferExhaustedError",
        }


def test_a_dead_letter_topic_of_the_blocking_shell(orders: MockCluster) -> None:
    hook = DeadLetterTopic("failed")
    with sync.Producer(bootstrap_servers=orders.bootstrap_servers, on_failed=hook) as producer:
        producer.send("orders", b"first").result(PATIENCE)
        orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
        producer.send("orders", b"1")
        producer.flush(PATIENCE)
    assert [letter.value for letter in asyncio.run(letters(orders, 1))] == [b"1"]


async def test_a_dead_letter_topic_by_another_producer(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as other:
        producer = await started(orders, on_failed=DeadLetterTopic("failed", other))
        orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
        producer.send("orders", b"1", partition=0)
        await producer.flush(PATIENCE)
        await producer.close()
        assert [letter.value for letter in await letters(orders, 1)] == [b"1"]
        await other.send("orders", b"it is open still")


@pytest.mark.parametrize("fallback", [True, False])
async def test_dead_letters_that_fail_are_no_dead_letters_again(
    orders: MockCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, fallback: bool
) -> None:
    path = tmp_path / "failed.jsonl"
    hook = DeadLetterTopic("failed", fallback=DeadLetterFile(path) if fallback else None)
    producer = await started(orders, on_failed=hook, **QUICK)
    orders.push_request_errors(PRODUCE, *[POLICY_VIOLATION] * 1_000)
    producer.send("orders", b"1", partition=0)
    producer.send("failed", b"2", partition=0)  # a record of the application's own
    await producer.flush(PATIENCE)
    await producer.close()
    if fallback:
        kept = sorted(read_dead_letters(path), key=lambda letter: letter.topic)
        assert [(letter.topic, letter.value) for letter in kept] == [
            ("failed", b"2"),
            ("orders", b"1"),
        ]
    else:
        assert re.search("could not keep [12] failed records? of topic orders", caplog.text)


async def test_close_gives_the_fallback_its_time_while_the_cluster_is_down(
    orders: MockCluster, tmp_path: Path
) -> None:
    path = tmp_path / "failed.jsonl"
    hook = DeadLetterTopic("failed", fallback=DeadLetterFile(path, fsync=False))
    producer = await started(orders, on_failed=hook)
    orders.set_broker_down(ALL_BROKERS)
    values = [b"%d" % number for number in range(1_200)]
    for value in values:
        producer.send("orders", value, partition=0)
    began = time.monotonic()
    assert await producer.close(4) == len(values)
    assert time.monotonic() - began < 6
    assert [letter.value for letter in read_dead_letters(path)] == values


async def test_producers_that_keep_the_dead_letters_of_each_other(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    a = await started(orders, on_failed=DeadLetterTopic("other"), **QUICK)
    b = await started(orders, on_failed=DeadLetterTopic("failed", a), **QUICK)
    orders.push_request_errors(PRODUCE, *[POLICY_VIOLATION] * 1_000)
    b.send("orders", b"1", partition=0)
    await b.flush(PATIENCE)
    await a.flush(PATIENCE)
    await a.close()
    await b.close()
    assert "is a dead letter itself" in caplog.text


async def test_records_that_may_have_been_written_can_be_skipped(orders: MockCluster) -> None:
    with MockCluster(brokers=1, topics={"failed": 1}) as other:
        hook = DeadLetterTopic(
            "failed", uncertain="skip", bootstrap_servers=other.bootstrap_servers
        )
        producer = await started(orders, on_failed=hook, **QUICK)
        orders.push_request_errors(PRODUCE, *[DISCONNECT] * 1_000)
        uncertain = producer.send("orders", b"uncertain", partition=0)
        await producer.flush(PATIENCE)
        error = uncertain.exception()
        assert isinstance(error, ProducerError)
        assert error.may_have_been_written
        orders.clear_request_errors(PRODUCE)
        orders.push_request_errors(PRODUCE, POLICY_VIOLATION)
        producer.send("orders", b"certain", partition=1)
        await producer.flush(PATIENCE)
        await producer.close()
        assert [letter.value for letter in await letters(other, 1)] == [b"certain"]


# --- the dead letter file ------------------------------------------------------------------------


async def test_a_dead_letter_file_and_the_way_back(orders: MockCluster, tmp_path: Path) -> None:
    path = tmp_path / "failed.jsonl"
    producer = await started(orders, on_failed=DeadLetterFile(path), **QUICK)
    orders.set_broker_down(ALL_BROKERS)
    values = [b"%d" % number for number in range(1_000)]
    for value in values:
        producer.send("orders", value, partition=1)
    await producer.flush(PATIENCE)
    kept = list(read_dead_letters(path))
    assert [letter.value for letter in kept] == values
    orders.set_broker_up(ALL_BROKERS)
    assert all(letter.may_have_been_written for letter in kept), "the broker died with them"
    report = await producer.send_many("orders", (each.record() for each in kept))
    assert report.delivered == 1_000
    assert set(report.partitions) == {1}
    await producer.close()
