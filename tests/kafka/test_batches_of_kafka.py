"""Batches that Kafka's own producer and broker wrote are decoded to the records that were sent."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aioproducer import Producer
from aioproducer.engine.records.decoder import RecordBatch, decode
from aioproducer.engine.records.encoded_batch import EncodedBatch
from aioproducer.model import Header, TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.encoded_batches import delete_horizon_ms
from tests.support.fetching import all_batches, all_records
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

SEND_RECORDS: Final = Path(__file__).with_name("java") / "SendRecords.java"
CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
NOON: Final = 1_700_000_000_000
PATIENCE: Final = 60.0
LIMIT: Final = 2**26


class Sent(NamedTuple):
    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOON


SHAPES: Final = [
    Sent(None, b"tombstone"),
    Sent(b"", b""),
    Sent("Grüße".encode(), "ключ".encode(), (("größe", "🎈".encode()), ("again", b"1"))),
    Sent(headers=(("again", b"1"), ("again", b""), ("", None))),
    Sent(headers=tuple((f"header {number}", b"%d" % number) for number in range(200))),
    Sent(timestamp_ms=NOON - 86_400_000),
    Sent(timestamp_ms=1),
    *[Sent(b"x" * size, b"k" * (size % 130), timestamp_ms=NOON + size) for size in range(1, 300)],
    Sent(b"0123456789abcdef" * 40_000),
]


def as_line(sent: Sent) -> str:
    contents = [sent.key, sent.value]
    for name, value in sent.headers:
        contents += [name.encode(), value]
    texts = ["-" if content is None else content.hex() for content in contents]
    return "\t".join([str(sent.timestamp_ms), *texts]) + "\n"


async def send_by_java(
    kafka: KafkaCluster, topic: str, codec: str, sent: list[Sent], *ends: str
) -> None:
    java = await kafka.tool(
        str(SEND_RECORDS),
        *(kafka.bootstrap_servers, topic, codec, *ends),
        input="".join(map(as_line, sent)),
        timeout=PATIENCE,
    )
    assert java.returncode == 0, java.stderr


def as_sent(batches: list[RecordBatch]) -> list[Sent]:
    return [
        Sent(each.value, each.key, each.headers, each.timestamp_ms)
        for batch in batches
        for each in batch
    ]


@pytest.mark.parametrize("codec", CODECS)
async def test_batches_of_javas_producer(kafka: KafkaCluster, codec: str) -> None:
    where = TopicPartition(f"java-{codec}", 0)
    await kafka.create_topic(where.topic, config={"max.message.bytes": 10_000_000})
    await send_by_java(kafka, where.topic, codec, SHAPES)
    encoded = await all_batches(kafka.bootstrap_servers, where)
    assert {each.compression_id for each in encoded} == {CODECS.index(codec)}
    assert {each.leader_epoch for each in encoded} == {0}
    found = await all_records(kafka.bootstrap_servers, where)
    assert as_sent(found) == SHAPES
    assert [each.offset for batch in found for each in batch] == list(range(len(SHAPES)))


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_batches_that_the_broker_compressed(kafka: KafkaCluster, codec: str) -> None:
    where = TopicPartition(f"broker-{codec}", 0)
    await kafka.create_topic(
        where.topic, config={"compression.type": codec, "max.message.bytes": 10_000_000}
    )
    await send_by_java(kafka, where.topic, "none", SHAPES)
    encoded = await all_batches(kafka.bootstrap_servers, where)
    assert {each.compression_id for each in encoded} == {CODECS.index(codec)}
    assert as_sent(await all_records(kafka.bootstrap_servers, where)) == SHAPES


async def test_the_times_of_the_broker(kafka: KafkaCluster) -> None:
    where = TopicPartition("log-append-time", 0)
    await kafka.create_topic(where.topic, config={"message.timestamp.type": "LogAppendTime"})
    await send_by_java(kafka, where.topic, "zstd", SHAPES[:50])
    found = await all_records(kafka.bootstrap_servers, where)
    assert [each.value for batch in found for each in batch] == [each.value for each in SHAPES[:50]]
    for batch in found:
        assert batch.timestamp_type == "LogAppendTime"
        (timestamp,) = {each.timestamp_ms for each in batch}
        assert timestamp > NOON + 86_400_000


async def test_the_ends_of_transactions(kafka: KafkaCluster) -> None:
    where = TopicPartition("ends-of-transactions", 0)
    await kafka.create_topic(where.topic)
    ends = ("commit", "abort", "abort", "commit")
    await send_by_java(kafka, where.topic, "lz4", SHAPES[:3], *ends)
    encoded = await all_batches(kafka.bootstrap_servers, where)
    assert tuple(each.control_type for each in encoded if each.is_control) == ends
    assert all(each.is_transactional for each in encoded)
    assert len({each.producer_id for each in encoded}) == 1
    assert as_sent(await all_records(kafka.bootstrap_servers, where)) == SHAPES[:3] * 4


async def test_what_the_log_cleaner_leaves(kafka_distribution: KafkaDistribution) -> None:
    """Gaps within batches, an empty batch, a delete horizon (KIP-534)."""
    async with KafkaCluster(brokers=1, config={"log.cleaner.backoff.ms": 100}) as kafka:
        where = TopicPartition("compacted", 0)
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
        await kafka.create_topic(where.topic, config=compacted | {"segment.ms": 100_000})
        keys = [
            b"once %d" % each if each % 10 == 4 else b"key %d" % (each % 3) for each in range(50)
        ]
        await write(kafka, where, list(enumerate(keys)))
        again = [b"key 0", b"key 1", b"key 2", b"once 44", b"once 14"]
        await write(kafka, where, list(enumerate(again, 50)))

        first, second, third, empty, last = await cleaned(kafka, where)
        for batch, offset in ((first, 4), (second, 24), (third, 34)):
            (record,) = decode(batch, limit=LIMIT)
            assert (record.offset, record.key) == (offset, b"once %d" % offset)
            assert record.timestamp_ms == NOON + offset
            assert batch.next_offset == offset + 6
        assert (empty.base_offset, empty.next_offset, empty.record_count) == (40, 50, 0)
        assert list(decode(empty, limit=LIMIT)) == []
        horizon = delete_horizon_ms(last)
        assert horizon is not None
        assert horizon > NOON + 86_400_000
        assert [(each.offset, each.timestamp_ms) for each in decode(last, limit=LIMIT)] == [
            (offset, NOON + offset) for offset in range(50, 55)
        ]


async def write(kafka: KafkaCluster, where: TopicPartition, keys: list[tuple[int, bytes]]) -> None:
    """Write batches of ten records by a producer of their own; the key "once 14" is deleted."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4", linger_ms=1_000
    ) as producer:
        for place, (offset, key) in enumerate(keys):
            if place % 10 == 0:
                await producer.flush()
            value = None if offset > 50 and key == b"once 14" else b"%d" % offset
            producer.send(where.topic, value, key=key, partition=0, timestamp_ms=NOON + offset)


async def cleaned(kafka: KafkaCluster, where: TopicPartition) -> list[EncodedBatch]:
    """The batches that the log cleaner has been through. It leaves the newest segment alone."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send(where.topic, b"", key=b"newest", timestamp_ms=NOON + 10**9)

    async def is_cleaned() -> bool:
        return (await all_batches(kafka.bootstrap_servers, where))[0].record_count == 1

    await until(is_cleaned, "the log is cleaned", PATIENCE)
    return (await all_batches(kafka.bootstrap_servers, where))[:-1]
