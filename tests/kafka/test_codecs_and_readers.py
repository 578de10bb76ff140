"""Records of every shape, in every compression, are read by other clients as they were sent."""

from __future__ import annotations

import asyncio
import struct
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import pytest

from aioproducer import Producer
from aioproducer.model import Header
from aioproducer.testing.kafka_cluster import KafkaCluster

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", ".*_text is deprecated", DeprecationWarning)
    import kafka as kafka_python  # type: ignore[import-untyped]

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore:.*_text is deprecated"),  # kafka-python, Python 3.11
]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOON = 1_700_000_000_000
TIMEOUT = 30.0
MANY = 10_000
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


class Read(NamedTuple):
    """A record as some client has read it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Sent(NamedTuple):
    """A record to be sent."""

    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOON


def records() -> list[Sent]:
    every_byte = bytes(range(256))
    return [
        Sent(None),
        Sent(b""),
        Sent(b"", key=b""),
        Sent(None, key=b"tombstone"),
        Sent("Grüße aus Köln, 你好, 🎈".encode(), key="ключ".encode()),
        Sent(every_byte, key=every_byte, headers=(("bytes", every_byte),)),
        Sent(headers=(("null", None), ("empty", b""))),
        Sent(headers=(("again", b"1"), ("other", b"x"), ("again", b"2"), ("again", None))),
        Sent(headers=(("", b"no name"), ("größe", "🎈".encode()))),
        Sent(headers=tuple((f"header {number}", b"%d" % number) for number in range(200))),
        Sent(timestamp_ms=NOON - 86_400_000),
        Sent(timestamp_ms=NOON + 1),
        Sent(timestamp_ms=1),
        *[Sent(b"x" * size, key=b"k" * (size % 130)) for size in range(1, 300)],
        Sent(b"x" * 70_000),
    ]


def as_read(sent: list[Sent]) -> list[Read]:
    return [
        Read(offset, each.timestamp_ms, each.key, each.value, each.headers)
        for offset, each in enumerate(sent)
    ]


async def send(cluster: KafkaCluster, topic: str, sent: list[Sent], **options: Any) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
        futures = [
            producer.send(
                topic,
                each.value,
                key=each.key,
                partition=0,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
            )
            for each in sent
        ]
        assert [(await future).offset for future in futures] == list(range(len(sent)))


# --- the readers ---------------------------------------------------------------------------


def blocking_confluent(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "x", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[Read] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < deadline:
        for each in consumer.consume(1000, 0.5):
            assert each.error() is None
            key, value, headers = each.key(), each.value(), each.headers()
            assert not isinstance(key, str)
            assert not isinstance(value, str)
            pairs = tuple((str(pair[0]), _as_bytes(pair[1])) for pair in headers or ())
            found.append(Read(each.offset() or 0, each.timestamp()[1], key, value, pairs))
    consumer.close()
    return found


def _as_bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


async def confluent(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    return await asyncio.to_thread(blocking_confluent, bootstrap_servers, topic, count)


async def aiokafka_(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id=None, enable_auto_commit=False
    ) as consumer:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        async with asyncio.timeout(TIMEOUT):
            return [
                Read(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                for each in [await consumer.getone() for _ in range(count)]
            ]


def blocking_kafka_python(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","), group_id=None, enable_auto_commit=False
    )
    partition = kafka_python.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[Read] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < deadline:
        for each in consumer.poll(500).get(partition, ()):
            headers = tuple((name, content) for name, content in each.headers)
            found.append(Read(each.offset, each.timestamp, each.key, each.value, headers))
    consumer.close()
    return found


async def kafka_python_(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    return await asyncio.to_thread(blocking_kafka_python, bootstrap_servers, topic, count)


Reader = Callable[[str, str, int], Awaitable[list[Read]]]


def readers(codec: str) -> list[Reader]:
    """kafka-python reads snappy only with one more package; the three others do."""
    return [confluent, aiokafka_] if codec == "snappy" else [confluent, aiokafka_, kafka_python_]


# --- the batches on disk -------------------------------------------------------------------


def segments(cluster: KafkaCluster, topic: str) -> list[Path]:
    return sorted(
        path for broker in cluster.brokers for path in broker.data_dir.glob(f"{topic}-0/*.log")
    )


def batch_counts(cluster: KafkaCluster, topic: str) -> Iterator[int]:
    """How many records each batch of the topic's only partition has."""
    for path in segments(cluster, topic):
        log, position = path.read_bytes(), 0
        while position < len(log):
            _, length, *_, count = BATCH_HEADER.unpack_from(log, position)
            yield count
            position += 12 + length


# --- the tests -----------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
async def test_every_client_reads_records_of_every_shape(kafka: KafkaCluster, codec: Any) -> None:
    topic = f"shapes-{codec}"
    await kafka.create_topic(topic)
    sent = records()
    await send(kafka, topic, sent, compression_type=codec)
    for read in readers(codec):
        assert await read(kafka.bootstrap_servers, topic, len(sent)) == as_read(sent)


@pytest.mark.parametrize("codec", CODECS)
async def test_every_client_reads_a_large_record(kafka: KafkaCluster, codec: Any) -> None:
    topic = f"large-{codec}"
    await kafka.create_topic(topic)
    noise = Random(codec).randbytes(900_000)
    text = b"all work and no play " * 43_000
    sent = [Sent(value, b"k") for value in (b"a", noise, text, b"b")]
    await send(kafka, topic, sent, compression_type=codec)
    for read in readers(codec):
        assert await read(kafka.bootstrap_servers, topic, len(sent)) == as_read(sent)


@pytest.mark.parametrize("codec", CODECS)
async def test_every_client_reads_a_batch_of_ten_thousand(kafka: KafkaCluster, codec: Any) -> None:
    topic = f"many-{codec}"
    await kafka.create_topic(topic)
    sent = [Sent(b"%d" % number, timestamp_ms=NOON + number // 1000) for number in range(MANY)]
    await send(kafka, topic, sent, compression_type=codec, batch_size=1_000_000)
    assert list(batch_counts(kafka, topic)) == [MANY]
    for read in readers(codec):
        assert await read(kafka.bootstrap_servers, topic, MANY) == as_read(sent)


async def test_kafkas_console_consumer_reads_every_codec(kafka: KafkaCluster) -> None:
    topic = "console"
    await kafka.create_topic(topic)
    expected = []
    for number, codec in enumerate(CODECS):
        options: dict[str, Any] = {"compression_type": codec}
        async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
            await producer.send(
                topic,
                f"Grüße in {codec}",
                key=f"{number}",
                headers=[("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")],
                timestamp_ms=NOON + number,
            )
            await producer.send(topic, None, timestamp_ms=number)
        expected += [
            f"CreateTime:{NOON + number}\ta:1,a:2,null:null,empty:\t{number}\tGrüße in {codec}",
            f"CreateTime:{number}\tNO_HEADERS\tnull\tnull",
        ]
    shown = [f"print.{what}=true" for what in ("timestamp", "headers", "key")]
    tool = await kafka.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(len(expected))),
        *[word for each in shown for word in ("--formatter-property", each)],
    )
    assert tool.returncode == 0, tool.stderr
    assert tool.stdout.splitlines() == expected
