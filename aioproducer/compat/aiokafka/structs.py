"""The tuples of aiokafka's interface: aiokafka's own where it is installed, else the same."""

from __future__ import annotations

from typing import NamedTuple

try:
    from aiokafka.structs import (  # type: ignore[import-untyped]
        OffsetAndMetadata,
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


__all__ = ["INSTALLED", "OffsetAndMetadata", "RecordMetadata", "TopicPartition"]
