"""Every log from its beginning to its end, read by confluent-kafka's consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.chaos.plan import PARTITIONS

_LONGEST_QUERY: Final = 10.0
_LONGEST_SILENCE: Final = 60.0


class ReadError(Exception):
    """The logs could not be read to their ends."""


def read_back(bootstrap_servers: str, topic: str) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and value of every record. Raises ReadError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        left = {}
        for number in range(PARTITIONS):
            partition = TopicPartition(topic, number, 0)
            _, end = consumer.get_watermark_offsets(partition, _LONGEST_QUERY)
            if end:
                left[number] = end
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        yield from _read(consumer, left)
    finally:
        consumer.close()


def _read(consumer: Consumer, left: dict[int, int]) -> Iterator[tuple[int, int, bytes]]:
    deadline = time.monotonic() + _LONGEST_SILENCE
    while left:
        messages = consumer.consume(10_000, 0.5)
        if messages:
            deadline = time.monotonic() + _LONGEST_SILENCE
        elif time.monotonic() > deadline:
            raise ReadError(f"nothing came for {_LONGEST_SILENCE:g} s, wanted are still {left}")
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is not None or partition is None or offset is None:
                raise ReadError(f"{message.error()}, wanted are still {left}")
            yield partition, offset, value if isinstance(value, bytes) else b""
            if offset + 1 >= left.get(partition, 0):
                left.pop(partition, None)
