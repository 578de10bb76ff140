"""Many records under one awaitable: how ``send_many()`` sends, counts and reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aioproducer.errors import ProducerError
from aioproducer.model import Headers, ProducerRecord, RecordMetadata, TopicPartition

_ERRORS_KEPT: Final = 10
_RECORDS_PER_TURN: Final = 500
"""How many records are taken before the event loop may do something else."""


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

    __slots__ = (
        "_cancelled",
        "_delivered",
        "_errors",
        "_failed",
        "_future",
        "_offsets",
        "_pending",
    )

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future
        self._pending = 1
        self._cancelled = False
        self._delivered = 0
        self._failed = 0
        self._errors: list[BaseException] = []
        self._offsets: dict[tuple[str, int], list[int]] = {}
        """First and last offset, and how many, by topic and partition."""

    def add(self) -> None:
        """One more record was sent."""
        self._pending += 1

    async def finish(self) -> SendReport:
        """All were sent: wait for the last fate."""
        self._settle_one()
        await self._future
        offsets = {
            TopicPartition(*place): OffsetRange(*counts) for place, counts in self._offsets.items()
        }
        return SendReport(self._delivered, self._failed, offsets, tuple(self._errors))

    def cancel(self) -> None:
        """Nobody asks for the fates any more: what still waits is not to be sent."""
        self._cancelled = True

    def done(self) -> bool:
        """Whether it was cancelled; until then it takes every record's fate."""
        return self._cancelled

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

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


class Crowd(Protocol):
    """Says whether there is room for more records."""

    crowded: bool


class BulkProducer(Protocol):
    """What sending many needs of a producer."""

    _crowd: Crowd

    def check_usable(self) -> None:
        """Raise if it is closed, or not here."""

    def put(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        token: Any,
        *,
        patient: bool,
    ) -> Any | None:
        """Send one record. It is returned if there is no place for it now."""

    async def put_later(self, record: Any) -> None:
        """Send a record that was returned, when there is a place."""

    def take_back_cancelled(self) -> None:
        """Take what was cancelled and still waits out of the line."""

    async def drain(self) -> None:
        """Wait for room."""


class BulkSender:
    """Sends many records of one ``send_many()`` as fast as there is room for them.

    ``append``: puts a record where it belongs, if nothing else has to be asked: see ``Entrance``.
    """

    def __init__(
        self,
        producer: BulkProducer,
        append: Callable[..., int],
        future: asyncio.Future[None],
    ) -> None:
        self._producer = producer
        self._append = append
        self._tally = Tally(future)

    async def send_all(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> SendReport:
        """Send each of ``values`` and wait for all fates. Cancelled, it takes back what waits."""
        try:
            await self._send_each(topic, values, partition, headers)
            return await self._tally.finish()
        except asyncio.CancelledError:
            self._tally.cancel()
            self._producer.take_back_cancelled()
            raise

    async def _send_each(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> None:
        producer, put = self._producer, self._put
        if isinstance(values, AsyncIterable):
            number = 0
            async for value in values:
                if (late := put(topic, value, partition, headers)) is not None:
                    await producer.put_later(late)
                if producer._crowd.crowded or not number % _RECORDS_PER_TURN:
                    await self._make_way()
                number += 1
        else:
            for number, value in enumerate(values):
                if (late := put(topic, value, partition, headers)) is not None:
                    await producer.put_later(late)
                if producer._crowd.crowded or not number % _RECORDS_PER_TURN:
                    await self._make_way()

    async def _make_way(self) -> None:
        """Wait for room; if there is, let others have their turn."""
        if self._producer._crowd.crowded:
            await self._producer.drain()
        else:
            await asyncio.sleep(0)

    def _put(
        self, topic: str, value: Any, partition: int | None, headers: Headers | None
    ) -> Any | None:
        """Send one of many; it is returned if there is no place for it now."""
        tally = self._tally
        key = timestamp_ms = None
        if isinstance(value, ProducerRecord):
            topic, value, key, partition, headers, timestamp_ms = value.fields()
        tally.add()
        if (
            headers is None
            and timestamp_ms is None
            and self._append(tally, topic, value, key, partition)
        ):
            return None
        self._producer.check_usable()
        try:
            return self._producer.put(
                topic, value, key, partition, headers, timestamp_ms, tally, patient=True
            )
        except ProducerError as error:
            tally.set_exception(error)
            return None
