"""The Java producer's metric names, with values that fit what happened."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from aioproducer import KafkaError, Producer, ProducerRecord, RecordMetadata
from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.sender.compressor import Compressor
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.model import NodeId
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster

PRODUCE = 0
PATIENCE = 60.0

JAVA_NAMES = [
    "record-send-rate",
    "record-send-total",
    "record-retry-rate",
    "record-retry-total",
    "record-error-rate",
    "record-error-total",
    "record-size-avg",
    "record-size-max",
    "batch-size-avg",
    "batch-size-max",
    "compression-rate-avg",
    "records-per-request-avg",
    "record-queue-time-avg",
    "record-queue-time-max",
    "request-latency-avg",
    "request-latency-max",
    "produce-throttle-time-avg",
    "produce-throttle-time-max",
    "requests-in-flight",
    "metadata-age",
    "buffer-total-bytes",
    "buffer-available-bytes",
    "buffer-exhausted-rate",
    "buffer-exhausted-total",
    "bufferpool-wait-ratio",
    "bufferpool-wait-time-ns-total",
    "waiting-threads",
    "request-rate",
    "request-total",
    "request-size-avg",
    "request-size-max",
    "outgoing-byte-rate",
    "outgoing-byte-total",
    "incoming-byte-rate",
    "incoming-byte-total",
    "response-rate",
    "response-total",
    "connection-count",
    "connection-creation-total",
    "connection-close-total",
    "batch-split-rate",
    "flush-time-ns-total",
    "metadata-wait-time-ns-total",
]


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


async def test_after_a_run(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, compression_type="lz4", batch_size=4_000
    ) as producer:
        before = producer.metrics()["producer-metrics"]
        assert set(JAVA_NAMES) <= before.keys()
        assert before["record-send-total"] == before["connection-count"] == 0.0
        assert math.isnan(before["metadata-age"])
        assert math.isnan(before["batch-size-avg"])
        report = await producer.send_many("orders", [b"x" * 100] * 1000)
        assert report.delivered == 1000
        await producer.flush()
        metrics = producer.metrics()
    whole = metrics["producer-metrics"]
    assert whole["record-send-total"] == 1000.0
    assert whole["record-send-rate"] > 0
    assert whole["record-error-total"] == whole["record-retry-total"] == 0.0
    assert 100 < whole["record-size-avg"] <= whole["record-size-max"] < 130
    assert 0 < whole["batch-size-avg"] <= whole["batch-size-max"] <= 4_000
    assert 0 < whole["compression-rate-avg"] < 0.5
    assert 1 < whole["records-per-request-avg"] <= 1000
    assert 0 <= whole["record-queue-time-avg"] <= whole["record-queue-time-max"] < 10_000
    assert 0 < whole["request-latency-avg"] <= whole["request-latency-max"] < 10_000
    assert whole["requests-in-flight"] == whole["waiting-threads"] == 0.0
    assert 0 <= whole["metadata-age"] < 60
    assert whole["buffer-available-bytes"] == whole["buffer-total-bytes"] == 33_554_432
    assert whole["connection-count"] == whole["connection-creation-total"] >= 2
    assert whole["outgoing-byte-total"] > 1_000
    assert whole["incoming-byte-total"] > 100
    assert whole["response-total"] == whole["request-total"] > 4
    assert whole["produce-throttle-time-max"] == 0.0
    assert whole["flush-time-ns-total"] > 0
    assert metrics["producer-topic-metrics"].keys() == {"orders"}
    topic = metrics["producer-topic-metrics"]["orders"]
    assert topic["record-send-total"] == 1000.0
    assert topic["byte-total"] > 0
    nodes = metrics["producer-node-metrics"]
    assert {"node-1", "node-2"} <= nodes.keys()
    assert sum(node["request-total"] for node in nodes.values()) == whole["request-total"]


async def test_the_time_that_sends_wait_for_metadata_is_counted(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, 30)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"v")
        waited = producer.metrics()["producer-metrics"]["metadata-wait-time-ns-total"]
    assert waited >= 25_000_000


async def test_errors_and_retries_are_counted(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, retry_backoff_ms=5, reconnect_backoff_ms=5
    ) as producer:
        await producer.send("orders", b"v", partition=0)
        orders.push_request_errors(PRODUCE, 19, DISCONNECT, 87)
        with pytest.raises(KafkaError):
            await producer.send("orders", b"v", partition=0)
        whole = producer.metrics()["producer-metrics"]
        assert whole["record-retry-total"] == 2.0
        assert whole["record-error-total"] == 1.0
        assert whole["record-send-total"] == 4.0
        assert whole["connection-close-total"] == 1.0


async def test_what_is_under_way_shows(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=8_000, batch_size=1_000
    ) as producer:
        await producer.send("orders", b"v", partition=0)
        orders.set_broker_rtt(ALL_BROKERS, 100)
        futures = [producer.send("orders", bytes(900), partition=0) for _ in range(8)]
        async with asyncio.timeout(PATIENCE):
            while not producer.metrics()["producer-metrics"]["requests-in-flight"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        whole = producer.metrics()["producer-metrics"]
        assert whole["waiting-threads"] == 2.0
        assert whole["buffer-available-bytes"] < 1_000
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        whole = producer.metrics()["producer-metrics"]
        assert whole["bufferpool-wait-time-ns-total"] > 0
        assert whole["waiting-threads"] == 0.0


class Counting:
    """An interceptor that looks at the count of delivered records when one is acknowledged."""

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.seen: list[int] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: object) -> None:
        assert self.producer is not None
        self.seen.append(self.producer.latencies().record.count)


async def test_whoever_is_told_of_a_delivery_finds_it_counted(orders: MockCluster) -> None:
    counting = Counting()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[counting]
    ) as producer:
        counting.producer = producer
        for _ in range(3):
            await producer.send("orders", b"v", partition=0)
    assert counting.seen == [1, 2, 3]


@pytest.mark.source_form
async def test_compression_is_no_time_of_the_broker(
    orders: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressed: list[float] = []
    sent: list[float] = []
    compress, send = Compressor.compress, NetworkClient.send

    def compressing(self: Compressor, batches: Sequence[ProducerBatch]) -> None:
        compress(self, batches)
        compressed.append(time.monotonic())

    def sending(self: NetworkClient, node: NodeId, request: Any, now: float) -> None:
        if isinstance(request, ProduceRequest):
            sent.append(now + self.clock.lost)
        send(self, node, request, now)

    monkeypatch.setattr(Compressor, "compress", compressing)
    monkeypatch.setattr(NetworkClient, "send", sending)
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, compression_type="gzip"
    ) as producer:
        await producer.send("orders", bytes(10_000), partition=0)
    assert compressed
    assert sent[0] >= compressed[0]
