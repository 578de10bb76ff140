"""A record that a :class:`MockProducer` has delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.model import ConsumerRecord, ProducerRecord, TopicPartition

__all__ = ["SentRecord"]


@dataclass(frozen=True, slots=True)
class SentRecord(ProducerRecord[Any, Any]):
    """A delivered record, with the fields that a consumer reads.

    ``key`` and ``value`` are the serialized bytes (or None), and ``headers`` are pairs.
    ``partition`` and ``timestamp_ms`` are those that were used.
    """

    offset: int = -1
    """The offset in the partition."""
    original: ProducerRecord[Any, Any] | None = None
    """The record passed to ``send()``, after interceptors and before serialization."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was written to."""
        assert self.partition is not None
        return TopicPartition(self.topic, self.partition)

    def as_read(self) -> ConsumerRecord:
        """The record as a consumer would read it."""
        assert self.partition is not None
        assert self.timestamp_ms is not None
        headers = tuple(self.headers or ())
        return ConsumerRecord(
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            "CreateTime",
            self.key,
            self.value,
            headers,  # type: ignore[arg-type]  # always pairs here
        )
