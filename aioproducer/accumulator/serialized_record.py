"""A record on its way into a batch: one value from the serializers to the accumulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aioproducer.model import Header, RecordMetadata


class RecordFuture(Protocol):
    """All that a batch knows of the future that ``send()`` returned."""

    def done(self) -> bool:
        """True if the record has an outcome, or its caller cancelled it."""

    def set_result(self, metadata: RecordMetadata, /) -> None:
        """The record is in the log."""

    def set_exception(self, error: BaseException, /) -> None:
        """The record failed."""

    def exception(self) -> BaseException | None:
        """Look at the outcome, so that asyncio does not complain if nobody else does."""


class SerializedRecord:
    """A record as ``send()`` has checked and serialized it, with the future of its caller."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "token", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: RecordFuture,
    ) -> None:
        self.topic = topic
        self.partition = partition
        """None: the key chooses the partition, or the record sticks to one."""
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.token = token
        """The future, or what stands for it, that gets the outcome."""
