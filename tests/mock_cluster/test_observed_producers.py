"""The observer of a producer: records, calls, batches and requests, to their outcomes."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from aioproducer import Producer, sync
from aioproducer.engine import observer
from aioproducer.engine.observer import BatchOutcome, RequestOutcome, Untraced
from aioproducer.errors import (
    ProducerClosedError,
    RecordCancelledError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.model import Header, RecordMetadata
from aioproducer.testing import read_back
from aioproducer.testing.mock_cluster import MockCluster

REQUEST_ID = contextvars.ContextVar("request", default="none")


class Trace:
    behind = None

    def __init__(self, context: str) -> None:
        self.headers: tuple[Header, ...] = (("context", context.encode()),)
        self.ends: list[tuple[Any, ...]] = []

    def headers_for(self, _: Any) -> tuple[Header, ...]:
        return self.headers

    def ended(self, *outcome: Any) -> None:
        self.ends.append(outcome)


class Recorder:
    """Traces records in a context that is set, and no other."""

    traces = True

    def __init__(self) -> None:
        self.records: list[Trace] = []
        self.calls: list[Trace] = []
        self.batches: list[BatchOutcome] = []
        self.requests: list[RequestOutcome] = []
        self.questions = 0
        self.closed = 0

    def context(self) -> object:
        return REQUEST_ID.get()

    def record_sent(self, *_: Any) -> Any:
        self.questions += 1
        if REQUEST_ID.get() == "none":
            return Untraced(1_000, (("context", b"none"),))
        self.records.append(Trace(REQUEST_ID.get()))
        return self.records[-1]

    def call_started(self, *_: Any) -> Any:
        self.calls.append(Trace(REQUEST_ID.get()))
        return self.calls[-1]

    def batch_ended(self, outcome: BatchOutcome) -> None:
        self.batches.append(outcome)

    def request_ended(self, outcome: RequestOutcome) -> None:
        self.requests.append(outcome)

    def close(self) -> None:
        self.closed += 1

    def ends(self) -> list[tuple[Any, ...]]:
        """The outcomes of the traced records, each of which has one."""
        return [end for trace in self.records for (end,) in [trace.ends]]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(topics={"orders": 1}) as cluster:
        yield cluster


def observed(producer: Any) -> Recorder:
    recorder = Recorder()
    (producer._core).observe(recorder)
    return recorder


async def contexts(cluster: MockCluster) -> list[bytes | None]:
    """The contexts that the records carry."""
    records = await read_back("orders", bootstrap_servers=cluster.bootstrap_servers)
    return [dict(record.headers).get("context") for record in records]


async def test_traced_records_and_the_others(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        recorder = observed(producer)
        for number in range(20):
            token = REQUEST_ID.set("seven") if number % 10 == 7 else None
            sent = await producer.send("orders", b"%d" % number)
            if token is not None:
                assert recorder.records[-1].ends == [(sent, None)]
                REQUEST_ID.reset(token)
        assert recorder.questions == 3, "the decision of the default context still holds"
    assert recorder.closed == 1
    assert await contexts(cluster) == [
        b"seven" if number % 10 == 7 else b"none" for number in range(20)
    ]


async def test_batches_and_requests_are_told(cluster: MockCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1_000) as producer:
        recorder = observed(producer)
        await producer.partitions_for("orders")
        futures = [producer.send("orders", bytes(100)) for _ in range(5)]
        await producer.flush()
        await asyncio.gather(*futures)
    (batch,), (request,) = recorder.batches, recorder.requests
    assert (batch.topic_partition, batch.records, batch.error) == (("orders", 0), 5, None)
    assert batch.size > 500
    assert batch.node == request.node.id
    assert request.batches == {("orders", 0): (5, batch.size)}
    assert f"{request.node.host}:{request.node.port}" in cluster.bootstrap_servers
    assert 0 < request.seconds <= batch.seconds
    assert request.error is None


async def test_a_record_that_fails_has_its_error(cluster: MockCluster) -> None:
    REQUEST_ID.set("x")
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, max_request_size=1_000
    ) as producer:
        recorder = observed(producer)
        with pytest.raises(RecordTooLargeError):
            producer.send("orders", bytes(2_000))
        with pytest.raises(SerializationError):
            producer.send("orders", b"", headers=7)  # type: ignore[arg-type]
        taken_back = producer.send("nowhere", b"v", partition=99)
        taken_back.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [type(error) for _, error in recorder.ends()] == [
        RecordTooLargeError,
        SerializationError,
        RecordCancelledError,
    ]
    assert recorder.ends()[-1][0] == RecordMetadata("nowhere", 99, -1, -1, -1, -1)


async def test_a_record_that_is_cancelled_in_its_batch_ends_with_its_delivery(
    cluster: MockCluster,
) -> None:
    REQUEST_ID.set("x")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=500) as producer:
        recorder = observed(producer)
        await producer.partitions_for("orders")
        producer.send("orders", b"v").cancel()
        await asyncio.sleep(0)
        assert recorder.records[0].ends == []
        await producer.flush()
        ((metadata, error),) = recorder.ends()
        assert (metadata.offset, error) == (0, None)


async def test_an_interceptor_and_a_serializer_run_once(cluster: MockCluster) -> None:
    seen: list[Any] = []

    class Interceptor:
        def on_send(self, record: Any) -> Any:
            seen.append(dict(record.headers))
            return record

        def on_acknowledgement(self, metadata: RecordMetadata, error: Any, headers: Any) -> None:
            seen.append(metadata.offset)

    def serialize(value: int) -> bytes:
        seen.append(value)
        return b"%d" % value

    REQUEST_ID.set("x")
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        interceptor_classes=[Interceptor()],
        value_serializer=serialize,
    ) as producer:
        recorder = observed(producer)
        await producer.send("orders", 5)
    assert seen == [{"context": b"x"}, 5, 0]
    assert len(recorder.ends()) == 1


@pytest.mark.parametrize("kind", ["values", "async", "arrow", "arrow with headers"])
async def test_a_send_many_is_one_call(cluster: MockCluster, kind: str) -> None:
    async def slowly() -> Any:
        for value in values:
            yield value

    REQUEST_ID.set("call")
    values = [b"%d" % number for number in range(50)]
    table = pa.table({"value": pa.array(values, pa.binary())})
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    own = pa.array([[{"key": "own", "value": b"1"}]] * 50, pa.list_(pair))
    given: Any = {
        "values": values,
        "async": slowly(),
        "arrow": table,
        "arrow with headers": table.append_column("headers", own),
    }[kind]
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        recorder = observed(producer)
        await producer.send_many("orders", given)
    assert [call.ends for call in recorder.calls] == [[(50, 0, None)]]
    assert recorder.records == []
    expected = None if kind == "arrow with headers" else b"call"
    assert await contexts(cluster) == [expected] * 50


async def test_a_send_many_that_fails_tells_its_error(cluster: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, max_request_size=1_000
    ) as producer:
        recorder = observed(producer)
        await producer.send_many("orders", [b"1", bytes(2_000)])
    ((sent, failed, error),) = recorder.calls[0].ends
    assert (sent, failed, type(error)) == (2, 1, RecordTooLargeError)


def test_a_blocking_producer_asks_in_the_thread_that_sends(cluster: MockCluster) -> None:
    def send(name: str) -> None:
        if name != "none":
            REQUEST_ID.set(name)
        for _ in range(10):
            producer.send("orders", b"v").result()
        producer.send_many("orders", [b"v"] * 5)
        producer.send_many("orders", iter([b"v"] * 5))

    with sync.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        recorder = observed(producer)
        threads = [threading.Thread(target=send, args=(name,)) for name in ("a", "b", "none")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(recorder.ends()) == 20
        assert all(error is None and metadata.offset >= 0 for metadata, error in recorder.ends())
        assert [call.ends for call in recorder.calls] == [[(5, 0, None)]] * 6
        latencies = producer.latencies()
    assert latencies.record.count == 60
    found = asyncio.run(contexts(cluster))
    assert sorted(map(str, found)) == sorted(map(str, [b"a", b"b", b"none"] * 20))


def test_a_blocking_producer_that_is_closed_ends_the_trace(cluster: MockCluster) -> None:
    REQUEST_ID.set("x")
    with sync.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        recorder = observed(producer)
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")
    assert [type(error) for _, error in recorder.ends()] == [ProducerClosedError]


async def test_the_default_observer_follows_every_producer_that_starts(
    cluster: MockCluster,
) -> None:
    made: list[Recorder] = []

    def make(producer: observer.ObservedProducer) -> Recorder:
        assert producer.client_id
        made.append(Recorder())
        return made[-1]

    observer.set_default(make)
    try:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("orders", b"v")
    finally:
        observer.set_default(None)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send("orders", b"v")
    assert [(each.questions, len(each.batches), each.closed) for each in made] == [(1, 1, 1)]


async def test_an_observer_that_fails_loses_no_record(cluster: MockCluster) -> None:
    class Fails(Recorder):
        def context(self) -> object:
            raise ValueError("context")

        def batch_ended(self, outcome: BatchOutcome) -> None:
            raise ValueError("batch")

        def request_ended(self, outcome: RequestOutcome) -> None:
            raise ValueError("request")

        def close(self) -> None:
            raise ValueError("close")

    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer._core.observe(Fails())
        assert (await producer.send("orders", b"v")).offset == 0
        assert (await producer.send_many("orders", [b"v"])).delivered == 1


async def test_latencies_of_records_and_their_parts(cluster: MockCluster) -> None:
    for broker in (1, 2, 3):
        cluster.set_broker_rtt(broker, 50)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(3):
            await producer.send("orders", b"v")
        found = producer.latencies()
        assert [each.count for each in found[:4]] == [3, 1, 3, 3]
        assert found.record.percentile(50) >= 0.05
        assert found.request.percentile(50) >= 0.05
        assert found.broker.count in (0, 3), "Linux alone knows the round-trip time"
        metrics = producer.metrics()["producer-metrics"]
        assert metrics["record-latency-p50"] >= 50
        assert metrics["record-latency-max"] >= metrics["record-latency-p99"]
