"""The values of aiokafka's interface: aiokafka's own where it is installed, else the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

try:
    from aiokafka.abc import ConsumerRebalanceListener  # type: ignore[import-untyped]
    from aiokafka.structs import (  # type: ignore[import-untyped]
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        TopicPartition,
    )

    INSTALLED = True
except ImportError:
    INSTALLED = False

    class TopicPartition(NamedTuple):  # type: ignore[no-redef]
        """A partition of a topic."""

        topic: str
        partition: int

    class OffsetAndMetadata(NamedTuple):  # type: ignore[no-redef]
        """A consumed offset to be committed: the next one to read."""

        offset: int
        metadata: str

    class RecordMetadata(NamedTuple):  # type: ignore[no-redef]
        """The place and the time of a delivered record."""

        topic: str
        partition: int
        topic_partition: TopicPartition
        offset: int
        timestamp: int | None
        timestamp_type: int
        """0: the producer's time (``CreateTime``); 1: the broker's (``LogAppendTime``)."""
        log_start_offset: int | None

    class OffsetAndTimestamp(NamedTuple):  # type: ignore[no-redef]
        """The first offset whose record is not older than a time, and the record's time."""

        offset: int
        timestamp: int | None

    @dataclass
    class ConsumerRecord:  # type: ignore[no-redef]
        """A record that was read."""

        topic: str
        partition: int
        offset: int
        timestamp: int
        timestamp_type: int
        """0: the producer's time (``CreateTime``); 1: the broker's (``LogAppendTime``)."""
        key: Any
        value: Any
        checksum: int | None
        serialized_key_size: int
        serialized_value_size: int
        headers: Sequence[tuple[str, bytes]]

    class ConsumerRebalanceListener(ABC):  # type: ignore[no-redef]
        """The callbacks of a consumer for the rebalances of its group."""

        @abstractmethod
        def on_partitions_revoked(self, revoked: Any) -> Any:
            """Called, or awaited, before a rebalance, with the partitions so far."""

        @abstractmethod
        def on_partitions_assigned(self, assigned: Any) -> Any:
            """Called, or awaited, after a rebalance, with the partitions from now on."""


__all__ = [
    "INSTALLED",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]
