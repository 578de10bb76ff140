"""A key goes to the partition where every Java client sends it, judged by Kafka's own code."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from aioproducer import Producer
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

JAVA = Path(__file__).with_name("java")
KEYS = 10_000
COUNTS = (1, 2, 3, 7, 12, 50, 64, 1000, 100_003)


def some_keys() -> list[bytes]:
    """Every length from 0 to 40, with corners that a wrong sign or a wrong tail would show."""
    random = Random("some keys")
    corners = [bytes(length) for length in range(41)]
    corners += [b"\xff" * length for length in range(1, 41)]
    corners += [b"\x80" * length for length in range(1, 41)]
    corners += [text.encode() for text in ("Schlüssel", "ключ", "鍵", "🗝️", "k\0y")]
    rest = [random.randbytes(random.randrange(41)) for _ in range(KEYS - len(corners))]
    return corners + rest


def in_hex(keys: list[bytes]) -> str:
    return "".join(f"{key.hex()}\n" for key in keys)


async def test_keys_have_the_partitions_that_java_computes(kafka: KafkaCluster) -> None:
    keys = some_keys()
    assert len(keys) == KEYS
    assert {len(key) for key in keys} == set(range(41))
    java = await kafka.tool(
        str(JAVA / "PartitionOf.java"), *map(str, COUNTS), input=in_hex(keys), timeout=60
    )
    assert java.returncode == 0, java.stderr
    theirs = [tuple(map(int, line.split())) for line in java.stdout.splitlines()]
    ours = [tuple(murmur2_partition(key, count) for count in COUNTS) for key in keys]
    assert ours == theirs

    topic = "partitions-of-keys"
    await kafka.create_topic(topic, partitions=12)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"", key=key) for key in keys]
        sent_to = [(await future).partition for future in futures]
    assert sent_to == [partitions[COUNTS.index(12)] for partitions in theirs]


async def test_kafkas_producer_and_ours_send_a_key_to_one_partition(kafka: KafkaCluster) -> None:
    keys = some_keys()[::10]
    topic = "partitions-of-two-clients"
    await kafka.create_topic(topic, partitions=7)
    java = await kafka.tool(
        str(JAVA / "SendKeys.java"),
        *(kafka.bootstrap_servers, topic),
        input=in_hex(keys),
        timeout=60,
    )
    assert java.returncode == 0, java.stderr
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"", key=key) for key in keys]
        ours = [(await future).partition for future in futures]
    assert ours == [int(line) for line in java.stdout.split()]
    assert set(ours) == set(range(7))
