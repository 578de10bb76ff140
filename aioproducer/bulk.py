"""Many records under one awaitable: how ``send_many()`` sends, counts and reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import Any, Final, Protocol

from aioproducer.errors import BufferExhaustedError, ProducerError, SerializationError
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
    ) -> None:
        """Send one record."""

    async def drain(self) -> None:
        """Wait for room."""

    async def flush(self) -> None:
        """Wait until all that was sent has its fate."""


class BulkSender:
    """Sends many records of one ``send_many()`` as fast as there is room for them.

    ``keyless``: by topic, what appends a value without anything else, see ``RecordAccumulator``.
    """

    def __init__(
        self,
        producer: BulkProducer,
        keyless: Mapping[str, Callable[..., int]],
        future: asyncio.Future[None],
    ) -> None:
        self._producer = producer
        self._keyless = keyless
        self._tally = Tally(future)

    async def send_all(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> SendReport:
        """Send each of ``values`` and wait for all fates."""
        producer, put = self._producer, self._put
        if isinstance(values, AsyncIterable):
            async for value in values:
                if not put(topic, value, partition, headers):
                    await self._put_when_empty(topic, value, partition, headers)
                await producer.drain()
        else:
            for number, value in enumerate(_iterable(values)):
                if not put(topic, value, partition, headers):
                    await self._put_when_empty(topic, value, partition, headers)
                if producer._crowd.crowded:
                    await producer.drain()
                elif not number % _RECORDS_PER_TURN:
                    await asyncio.sleep(0)
        return await self._tally.finish()

    async def _put_when_empty(
        self, topic: str, value: Any, partition: int | None, headers: Headers | None
    ) -> None:
        await self._producer.flush()
        self._put(topic, value, partition, headers, last_try=True)

    def _put(
        self,
        topic: str,
        value: Any,
        partition: int | None,
        headers: Headers | None,
        *,
        last_try: bool = False,
    ) -> bool:
        """Send one of many; False: it is too large for the room that is left in the line."""
        tally = self._tally
        key = timestamp_ms = None
        if isinstance(value, ProducerRecord):
            topic, value, key, partition, headers, timestamp_ms = value.fields()
        self._producer.check_usable()
        tally.add()
        if (
            type(value) is bytes
            and key is None
            and partition is None
            and headers is None
            and timestamp_ms is None
            and type(topic) is str
        ):
            join = self._keyless.get(topic)
            if join is not None and join(tally, time_ns(), value):
                return True
        try:
            self._producer.put(topic, value, key, partition, headers, timestamp_ms, tally)
        except ProducerError as error:
            if isinstance(error, BufferExhaustedError) and not last_try:
                tally.withdraw()
                return False
            tally.set_exception(error)
        return True


def _iterable(values: Any) -> Iterable[Any]:
    if isinstance(values, str | bytes | bytearray | memoryview):
        raise SerializationError(
            f"send_many() takes values one by one from an iterable, and a single "
            f"{type(values).__name__} is none of values: use send(), or put it into a list"
        )
    try:
        iterator: Iterable[Any] = iter(values)
    except TypeError:
        raise SerializationError(
            f"send_many() takes an iterable or async iterable of values, "
            f"not {type(values).__name__}"
        ) from None
    return iterator
