"""What is committed in every log, read by confluent-kafka's consumer from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.chaos.plan import PARTITIONS

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
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        yield from _read(consumer)
    finally:
        consumer.close()


def _read(consumer: Consumer) -> Iterator[tuple[int, int, bytes]]:
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + _LONGEST_SILENCE
    while left:
        messages = consumer.consume(10_000, 0.5)
        if messages:
            deadline = time.monotonic() + _LONGEST_SILENCE
        elif time.monotonic() > deadline:
            raise ReadError(f"nothing came for {_LONGEST_SILENCE:g} s, wanted are still {left}")
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition or 0)
            elif error is not None or partition is None or offset is None:
                raise ReadError(f"{error}, wanted are still {left}")
            else:
                yield partition, offset, value if isinstance(value, bytes) else b""
