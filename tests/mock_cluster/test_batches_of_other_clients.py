"""Batches that other clients wrote, as the broker sends them: decoded to what was written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

import aiokafka  # type: ignore[import-untyped]
import pytest

from aioproducer import Producer
from aioproducer.engine.records.decoder import RecordBatch, records_to_arrow
from aioproducer.model import Header, TopicPartition
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.fetching import all_batches, all_records

confluent_kafka: Any = pytest.importorskip("confluent_kafka")

CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
WHERE: Final = TopicPartition("orders", 0)
NOW: Final = 1_700_000_000_000


class Sent(NamedTuple):
    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOW


SHAPES: Final = [
    Sent(None, b"tombstone"),
    Sent(b"", b""),
    Sent("Grüße".encode(), "ключ".encode(), (("größe", "🎈".encode()), ("again", b"1"))),
    Sent(headers=(("again", b"1"), ("again", b""), ("null", None))),
    Sent(timestamp_ms=NOW - 86_400_000),
    Sent(timestamp_ms=1),
    *[Sent(b"x" * size, b"k" * (size % 130), timestamp_ms=NOW + size) for size in range(1, 300)],
    Sent(b"0123456789abcdef" * 4_400),
]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, topics={"orders": 1}) as started:
        yield started


async def confluent(bootstrap_servers: str, codec: str, sent: list[Sent]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    )
    for each in sent:
        producer.produce(
            "orders",
            each.value,
            each.key,
            partition=0,
            headers=list(each.headers),
            timestamp=each.timestamp_ms,
        )
    assert await asyncio.to_thread(producer.flush, 30.0) == 0


async def aiokafka_(bootstrap_servers: str, codec: str, sent: list[Sent]) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=None if codec == "none" else codec,
        linger_ms=50,
    ) as producer:
        await asyncio.gather(
            *[
                await producer.send(
                    "orders",
                    each.value,
                    each.key,
                    partition=0,
                    headers=list(each.headers),
                    timestamp_ms=each.timestamp_ms,
                )
                for each in sent
            ]
        )


async def ours(bootstrap_servers: str, codec: Any, sent: list[Sent]) -> None:
    async with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec) as producer:
        for each in sent:
            producer.send(
                "orders",
                each.value,
                key=each.key,
                partition=0,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
            )


def as_sent(batches: list[RecordBatch]) -> list[Sent]:
    return [
        Sent(each.value, each.key, each.headers, each.timestamp_ms)
        for batch in batches
        for each in batch
    ]


@pytest.mark.parametrize("writer", [ours, confluent, aiokafka_])
@pytest.mark.parametrize("codec", CODECS)
async def test_every_shape_in_every_compression(
    cluster: MockCluster, writer: Callable[[str, str, list[Sent]], Awaitable[None]], codec: str
) -> None:
    await writer(cluster.bootstrap_servers, codec, SHAPES)
    encoded = await all_batches(cluster.bootstrap_servers, WHERE)
    assert CODECS.index(codec) in {each.compression_id for each in encoded}
    found = await all_records(cluster.bootstrap_servers, WHERE)
    assert as_sent(found) == SHAPES
    assert [each.offset for batch in found for each in batch] == list(range(len(SHAPES)))


async def test_arrow_columns_go_out_as_they_came_in(cluster: MockCluster) -> None:
    pytest.importorskip("pyarrow")
    await ours(cluster.bootstrap_servers, "zstd", SHAPES)
    columns = records_to_arrow(await all_records(cluster.bootstrap_servers, WHERE))
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        report = await producer.send_many("orders", columns)
    report.raise_for_failures()
    assert as_sent(await all_records(cluster.bootstrap_servers, WHERE)) == SHAPES * 2
