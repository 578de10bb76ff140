"""The short way of a record: into a batch that is open, where nothing else has to be asked.

Nearly all records take it. Whatever it does not know is left to others: it then did nothing.

``compiled/entrance.pyx`` has the same for C; what is here is the reference.
"""

from __future__ import annotations

from typing import Any

from aioproducer.partitioning import murmur2_partition
from aioproducer.records.builder import RecordsBuilder


class OpenBatches:
    """The builders that records of one topic may join.

    One that is closed takes nothing, so it does no harm here.
    """

    __slots__ = ("keyless", "partitions")

    def __init__(self) -> None:
        self.keyless: RecordsBuilder | None = None
        """For records that name no partition and have no key that does."""
        self.partitions: list[RecordsBuilder | None] = []
        """For the others. There are as many as the topic has partitions."""


class ShortWay:
    """Which records may take it, and where they get to."""

    __slots__ = ("ignore_keys", "is_open", "last", "topics")

    def __init__(self, *, ignore_keys: bool = False) -> None:
        self.ignore_keys = ignore_keys
        """Keyed records go where keyless ones do."""
        self.is_open = True
        """While it is not, no record takes it."""
        self.topics: dict[str, OpenBatches] = {}
        self.last: RecordsBuilder | None = None
        """Where the record is that was sent last; None: in no batch yet."""

    def append(
        self, token: Any, timestamp_ms: int, topic: Any, value: Any, key: Any, partition: Any
    ) -> int:
        """Append a record without headers; its size in bytes, or 0."""
        builder = self.find(topic, value, key, partition)
        if builder is None:
            return 0
        self.last = builder
        return builder.append(token, timestamp_ms, key, value)

    def find(self, topic: Any, value: Any, key: Any, partition: Any) -> RecordsBuilder | None:
        """The builder for a record; None: it can't go the short way."""
        if (
            not self.is_open
            or type(topic) is not str
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            return None
        batches = self.topics.get(topic)
        if batches is None:
            return None
        if partition is None:
            if key is None or self.ignore_keys:
                return batches.keyless
            if not batches.partitions:
                return None
            return batches.partitions[murmur2_partition(key, len(batches.partitions))]
        if type(partition) is int and 0 <= partition < len(batches.partitions):
            return batches.partitions[partition]
        return None
