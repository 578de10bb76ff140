"""What a topic has, as librdkafka reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

TIMEOUT = 30.0

Isolation = Literal["read_committed", "read_uncommitted"]
Header = tuple[str, bytes | None]


class Read(NamedTuple):
    """A record as librdkafka has read it."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


async def read(
    servers: str, topic: str, isolation: Isolation = "read_committed"
) -> list[list[Read]]:
    """Each partition to its end."""
    return await asyncio.to_thread(blocking_read, servers, topic, isolation)


def blocking_read(servers: str, topic: str, isolation: Isolation) -> list[list[Read]]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
        }
    )
    found = consumer.list_topics(topic, TIMEOUT).topics[topic].partitions
    logs: list[list[Read]] = [[] for _ in found]
    consumer.assign([TopicPartition(topic, number, 0) for number in range(len(logs))])
    left = set(range(len(logs)))
    deadline = time.monotonic() + TIMEOUT
    while left:
        assert time.monotonic() < deadline, f"partitions {left} of {topic} could not be read"
        for message in consumer.consume(10_000, 0.1):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                key, value, headers = message.key(), message.value(), message.headers()
                assert not isinstance(key, str)
                assert not isinstance(value, str)
                pairs: Any = tuple((pair[0], pair[1]) for pair in headers or ())
                logs[partition].append(Read(message.timestamp()[1], key, value, pairs))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
    consumer.close()
    return logs


async def until_read(
    servers: str, topic: str, there: Callable[[list[list[Read]]], bool]
) -> list[list[Read]]:
    deadline = time.monotonic() + TIMEOUT
    while not there(logs := await read(servers, topic)):
        assert time.monotonic() < deadline, f"{topic} has nothing but {logs}"
        await asyncio.sleep(0.02)
    return logs


def values(logs: list[list[Read]]) -> list[bytes | None]:
    return [record.value for log in logs for record in log]
