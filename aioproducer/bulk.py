"""Many records under one awaitable: what ``send_many()`` counts and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from aioproducer.model import RecordMetadata, TopicPartition

_ERRORS_KEPT = 10


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition; others may have written in between."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class SendReport:
    """What became of the records of one ``send_many()``."""

    delivered: int
    failed: int
    offsets: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    """Where the delivered ones are."""
    errors: tuple[BaseException, ...] = ()
    """The first ten errors."""

    @property
    def sent(self) -> int:
        """How many records there were."""
        return self.delivered + self.failed

    def raise_for_failures(self) -> None:
        """Raise the first error, if there was any."""
        if self.errors:
            raise self.errors[0]


class Tally:
    """Stands in for the futures of many records: counts their fates instead."""

    __slots__ = ("_delivered", "_errors", "_failed", "_future", "_offsets", "_pending")

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future
        self._pending = 1
        self._delivered = 0
        self._failed = 0
        self._errors: list[BaseException] = []
        self._offsets: dict[tuple[str, int], list[int]] = {}
        """First and last offset, and how many, by topic and partition."""

    def add(self) -> None:
        """One more record was sent."""
        self._pending += 1

    def withdraw(self) -> None:
        """The record that was added last was not sent after all."""
        self._pending -= 1

    async def finish(self) -> SendReport:
        """All were sent: wait for the last fate."""
        self._settle_one()
        await self._future
        offsets = {
            TopicPartition(*place): OffsetRange(*counts) for place, counts in self._offsets.items()
        }
        return SendReport(self._delivered, self._failed, offsets, tuple(self._errors))

    def done(self) -> bool:
        """Never: it takes every record's fate."""
        return False

    def cancelled(self) -> bool:
        """Never: nobody can take a single record back."""
        return False

    def set_result(self, metadata: RecordMetadata) -> None:
        """One record is in the log."""
        self._delivered += 1
        topic, partition, offset, *_ = metadata
        known = self._offsets.get((topic, partition))
        if known is None:
            self._offsets[topic, partition] = [offset, offset, 1]
        else:
            if offset > known[1]:
                known[1] = offset
            elif offset < known[0]:
                known[0] = offset
            known[2] += 1
        self._settle_one()

    def set_exception(self, error: BaseException) -> None:
        """One record failed."""
        self._failed += 1
        if len(self._errors) < _ERRORS_KEPT:
            self._errors.append(error)
        self._settle_one()

    def exception(self) -> BaseException | None:
        """Nobody is told of a single record."""
        return None

    def _settle_one(self) -> None:
        self._pending -= 1
        if not self._pending and not self._future.done():
            self._future.set_result(None)
