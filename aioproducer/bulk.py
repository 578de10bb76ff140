"""Many records under one awaitable: how ``send_many()`` sends, counts and reports."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from aioproducer.errors import ProducerError
from aioproducer.model import Headers, ProducerRecord, RecordMetadata, TopicPartition
from aioproducer.records.acceleration import ShortWay, fill_places
from aioproducer.records.spans import Span

_RECORDS_PER_TURN: Final = 500
"""How many records are taken one by one before the event loop may do something else."""
ROWS_PER_TURN: Final = 2_000
"""The same for values that go into a batch in one call. One that opens a batch counts as
``_RECORDS_PER_TURN``, whatever its size, for the bytes of the batch before."""
_AHEAD_AT_LEAST: Final = 8
"""How many of an iterator are taken ahead. Where more than half as many went into one batch at
once, it may be twice as many as went there, up to ``_RECORDS_PER_TURN``."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition; others may have written in between."""

    first: int
    last: int
    count: int


def _no_partitions() -> array[int]:
    return array("i")


def _no_offsets() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class SendReport:
    """What became of the records of one ``send_many()``.

    Their indices count from 0, in the order in which they were given.
    """

    delivered: int
    failed: int
    partitions: array[int] = field(default_factory=_no_partitions)
    """The partition of each record, of type "i"; -1 where it failed."""
    offsets: array[int] = field(default_factory=_no_offsets)
    """The offset of each record, of type "q"; -1 where it failed, or where it is not known: with
    ``acks=0``, or for a duplicate whose offset the broker no longer knew."""
    failures: Mapping[int, BaseException] = field(default_factory=dict)
    """The errors of those that failed by their indices, in the order of these."""
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    """Where the delivered ones are, by partition."""

    @property
    def sent(self) -> int:
        """How many records there were."""
        return self.delivered + self.failed

    @property
    def first_failure(self) -> BaseException | None:
        """The error of the first record that failed."""
        return next(iter(self.failures.values()), None)

    def raise_for_failures(self) -> None:
        """Raise the error of the first record that failed, if any did."""
        if (error := self.first_failure) is not None:
            raise error.with_traceback(None)


class Tally:
    """Takes the fates of the records of one call, which are numbered as they come."""

    __slots__ = (
        "_cancelled",
        "_delivered",
        "_failures",
        "_future",
        "_offsets",
        "_partitions",
        "_pending",
        "_ranges",
    )

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future
        self._pending = 1
        self._cancelled = False
        self._delivered = 0
        self._partitions = array("i")
        self._offsets = array("q")
        self._failures: dict[int, BaseException] = {}
        self._ranges: dict[tuple[str, int], list[int]] = {}
        """First and last offset, and how many, by topic and partition."""

    def add(self, count: int = 1) -> int:
        """So many more records are sent; the index of the first of them."""
        first = len(self._partitions)
        self._partitions.extend(_NOWHERE * count)
        self._offsets.extend(_UNKNOWN * count)
        self._pending += count
        return first

    async def finish(self) -> SendReport:
        """All were sent: wait for the last fate."""
        self._settle(1)
        await self._future
        return SendReport(
            self._delivered,
            len(self._failures),
            self._partitions,
            self._offsets,
            dict(sorted(self._failures.items())),
            {TopicPartition(*at): OffsetRange(*counts) for at, counts in self._ranges.items()},
        )

    def cancel(self) -> None:
        """Nobody asks for the fates any more: what still waits is not to be sent."""
        self._cancelled = True

    def done(self) -> bool:
        """Whether it was cancelled; until then it takes every record's fate."""
        return self._cancelled

    def one(self, index: int) -> OneRecord:
        """Stands in for the future of one record."""
        return OneRecord(self, index)

    def arrived(self, span: Span, topic: str, partition: int, base_offset: int) -> None:
        """All records of ``span`` are in the log; ``base_offset`` -1: unknown."""
        fill_places(self._partitions, self._offsets, span, partition, base_offset)
        last = base_offset + span.count - 1 if base_offset >= 0 else base_offset
        self._count(topic, partition, base_offset, last, span.count)

    def delivered(self, index: int, metadata: RecordMetadata) -> None:
        """One record is in the log."""
        topic, partition, offset, *_ = metadata
        self._partitions[index] = partition
        self._offsets[index] = offset
        self._count(topic, partition, offset, offset, 1)

    def failed(self, index: int, error: BaseException) -> None:
        """One record failed."""
        self._failures[index] = error
        self._settle(1)

    def _count(self, topic: str, partition: int, first: int, last: int, count: int) -> None:
        self._delivered += count
        known = self._ranges.get((topic, partition))
        if known is None:
            self._ranges[topic, partition] = [first, last, count]
        else:
            known[0] = min(known[0], first)
            known[1] = max(known[1], last)
            known[2] += count
        self._settle(count)

    def _settle(self, count: int) -> None:
        self._pending -= count
        if not self._pending and not self._future.done():
            self._future.set_result(None)


_NOWHERE: Final = array("i", [-1])
_UNKNOWN: Final = array("q", [-1])


class OneRecord:
    """Stands in for a record's future: tells a :class:`Tally` its fate."""

    __slots__ = ("_index", "_tally")

    def __init__(self, tally: Tally, index: int) -> None:
        self._tally = tally
        self._index = index

    def done(self) -> bool:
        """Whether nobody wants its fate any more."""
        return self._tally.done()

    def cancelled(self) -> bool:
        """Whether it is not to be sent any more."""
        return self._tally.done()

    def set_result(self, metadata: RecordMetadata) -> None:
        """It is in the log."""
        self._tally.delivered(self._index, metadata)

    def set_exception(self, error: BaseException) -> None:
        """It failed."""
        self._tally.failed(self._index, error)

    def exception(self) -> BaseException | None:
        """Nobody is told of a single record."""
        return None


class Crowd(Protocol):
    """Says whether there is room for more records."""

    crowded: bool

    def last_has_room(self) -> bool:
        """Whether there is, for more records like the one that was sent last."""


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
        over_capacity: bool,
    ) -> None:
        """Send one record."""

    def take_back_cancelled(self) -> None:
        """Take what was cancelled and still waits out of the line."""

    async def drain(self) -> None:
        """Wait for room."""


class EntranceOfOne(Protocol):
    """What sending many needs of an ``Entrance``."""

    def serves(self) -> bool:
        """Whether the caller is in the thread and the loop to be served."""

    def append(self, token: Any, topic: Any, value: Any, key: Any, partition: Any) -> int:
        """Put a record where it belongs, if nothing else has to be asked; else return 0."""


class BulkSender:
    """Sends many records of one ``send_many()`` as fast as there is room for them."""

    def __init__(
        self,
        producer: BulkProducer,
        entrance: EntranceOfOne,
        short_way: ShortWay,
        future: asyncio.Future[None],
        now_ms: Callable[[], int],
    ) -> None:
        self._now_ms = now_ms
        self._producer = producer
        self._entrance = entrance
        self._short_way = short_way
        self._tally = Tally(future)
        self._work = 0
        """What was done since others had their turn."""

    async def send_all(
        self,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> SendReport:
        """Send each of ``values`` and wait for all fates. Cancelled, it takes back what waits."""
        if isinstance(values, AsyncIterable):
            return await self._told(self._send_each(topic, values, partition, headers))
        return await self._told(self._send_chunks(topic, values, partition, headers))

    async def _told(self, sending: Coroutine[Any, Any, None]) -> SendReport:
        try:
            await sending
            return await self._tally.finish()
        except asyncio.CancelledError:
            self._tally.cancel()
            self._producer.take_back_cancelled()
            raise

    async def _send_each(
        self,
        topic: str,
        values: AsyncIterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> None:
        producer, tally, put = self._producer, self._tally, self._put
        async for value in values:
            index = tally.add()
            put(index, topic, value, partition, headers)
            if producer._crowd.crowded:
                await producer.drain()
            elif not index % _RECORDS_PER_TURN:
                await asyncio.sleep(0)

    async def _send_chunks(
        self,
        topic: str,
        values: Iterable[Any],
        partition: int | None,
        headers: Headers | None,
    ) -> None:
        if isinstance(values, list | tuple):
            at = 0
            while chunk := list(values[at : at + ROWS_PER_TURN]):
                await self._send_chunk(topic, chunk, partition, headers)
                at += len(chunk)
            return
        iterator = iter(values)
        ahead = _AHEAD_AT_LEAST
        error: Exception | None = None
        while error is None:
            chunk = []
            try:
                chunk.extend(islice(iterator, ahead))
            except Exception as raised:
                error = raised  # what came before is sent
            if not chunk:
                break
            fitting = await self._send_chunk(topic, chunk, partition, headers)
            ahead = min(max(_AHEAD_AT_LEAST, 2 * fitting), _RECORDS_PER_TURN)
        if error is not None:
            raise error

    async def _send_chunk(
        self, topic: str, chunk: list[Any], partition: int | None, headers: Headers | None
    ) -> int:
        """Send what is in ``chunk``; how many records of it went into one batch in one call."""
        producer, put = self._producer, self._put
        first = self._tally.add(len(chunk))
        at = count = most = 0
        while at < len(chunk):
            before = count
            count = 0
            if headers is None and type(chunk[at]) is bytes:
                count = self._append_values(first + at, topic, chunk, at, partition)
            if count:
                most = max(most, count)
                self._work += count
                at += count
            else:
                put(first + at, topic, chunk[at], partition, headers)
                self._worked_on_one(before)
                at += 1
            if producer._crowd.crowded:
                await producer.drain()
            if self._work >= ROWS_PER_TURN:
                self._work = 0
                await asyncio.sleep(0)
        return most

    def _worked_on_one(self, before: int) -> None:
        """A record was sent alone, after so many together."""
        self._work += _RECORDS_PER_TURN if before else ROWS_PER_TURN // _RECORDS_PER_TURN

    def _append_values(
        self, index: int, topic: str, values: list[Any], at: int, partition: int | None
    ) -> int:
        """Put values into the open batch, while they are bytes and fit there; how many."""
        if not self._entrance.serves():
            return 0
        builder = self._short_way.find(topic, None, None, partition)
        if builder is None:
            return 0
        span = Span(self._tally, index)
        self._short_way.last = builder
        span.count = builder.append_values(span, self._now_ms(), values, at)
        return span.count

    def _put(
        self, index: int, topic: str, value: Any, partition: int | None, headers: Headers | None
    ) -> None:
        """Send a value, or a whole record."""
        if isinstance(value, ProducerRecord):
            self._put_fields(index, *value.fields())
        else:
            self._put_fields(index, topic, value, None, partition, headers, None)

    def _put_fields(
        self,
        index: int,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> None:
        token = OneRecord(self._tally, index)
        if (
            headers is None
            and timestamp_ms is None
            and self._entrance.append(token, topic, value, key, partition)
        ):
            return
        self._producer.check_usable()
        try:
            self._producer.put(
                topic, value, key, partition, headers, timestamp_ms, token, over_capacity=True
            )
        except ProducerError as error:
            token.set_exception(error)
