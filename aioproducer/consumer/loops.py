"""The loops of an application: asking for more acknowledges what it got before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from aioproducer.consumer.progress import Progress
from aioproducer.consumer.session import Session
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import IllegalStateError
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.record_source import RecordSource


class _Loop:
    """A loop of one application. ``check`` raises the error of a consumer that can't be read."""

    __slots__ = ("_check", "_progress", "_session", "_source")

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
    ) -> None:
        self._source = source
        self._progress = progress
        self._session = session
        self._check = check

    def __aiter__(self) -> Self:
        return self

    async def _begin_step(self, what: str, is_mine: bool) -> None:
        """Acknowledge what the last step has given, and let other tasks run.

        ``is_mine``: True if what a loop works on is the ``what`` that this one has given.
        """
        progress = self._progress
        self._check()
        if progress.loop_works and not is_mine:
            raise _another_loop(what)
        progress.finish()
        await self._source.pause()
        if progress.loop_works:
            raise _another_loop(what)
        self._session.look()


class Records(_Loop):
    """Records one by one."""

    __slots__ = ("_cursor", "_last", "_time", "_until")

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
    ) -> None:
        super().__init__(source, progress, session, check)
        self._cursor = source.cursor
        self._last: ConsumerRecord | None = None
        self._time = session.real_clock
        self._until = 0.0
        """The real clock's time from which on other tasks have a turn, and the session a look."""

    async def __anext__(self) -> ConsumerRecord:
        progress = self._progress
        # Else a commit has finished the last one, or it is another loop's.
        if progress.record is self._last and self._time() < self._until:
            for record in self._cursor.records:
                self._cursor.last = progress.record = self._last = record
                return record
        return await self._next()

    async def _next(self) -> ConsumerRecord:
        progress, cursor = self._progress, self._cursor
        await self._begin_step("record", progress.record is self._last)
        self._last = None
        self._until = min(self._time() + tuning.LONGEST_LOOP_TURN, self._session.ends)
        while True:
            for record in cursor.records:
                cursor.last = progress.record = self._last = record
                return record
            if not await self._source.open_next_batch():
                raise StopAsyncIteration


class Batches(_Loop):
    """Batches as they were written."""

    __slots__ = ()

    async def __anext__(self) -> RecordBatch:
        await self._begin_step("batch", self._progress.batch_of is self)
        batch = await self._source.next_batch()
        if batch is None:
            raise StopAsyncIteration
        first = (batch.topic_partition, batch.first_offset)
        self._progress.began_batch(self, [first], self._session.clock())
        return batch


class Lists(_Loop):
    """Lists of the records that are there, of up to ``max_records``, one at least.

    ``max_wait``: the seconds after which a list is empty; None: it never is.
    """

    __slots__ = ("_max_records", "_max_wait")

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
        max_records: int,
        max_wait: float | None = None,
    ) -> None:
        super().__init__(source, progress, session, check)
        self._max_records = max_records
        self._max_wait = max_wait

    async def __anext__(self) -> list[ConsumerRecord]:
        await self._begin_step("batch", self._progress.batch_of is self)
        found: list[ConsumerRecord] = []
        bound = PatientTimeout(self._max_wait)
        try:
            async with bound:
                await self._fill(found)
        except TimeoutError:
            if not bound.expired():
                raise
        else:
            if not found:
                raise StopAsyncIteration
        firsts: dict[TopicPartition, int] = {}
        for record in found:
            firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        self._progress.began_batch(self, firsts.items(), self._session.clock())
        return found

    async def _fill(self, found: list[ConsumerRecord]) -> None:
        """Wait for a record, and add those that are there."""
        source, cursor = self._source, self._source.cursor
        while len(found) < self._max_records:
            for record in cursor.records:
                cursor.last = record
                found.append(record)
                if len(found) == self._max_records:
                    return
            if not (source.open_batch_now() if found else await source.open_next_batch()):
                return


def _another_loop(what: str) -> IllegalStateError:
    return IllegalStateError(
        f"another loop works on a {what} of this Consumer: one at a time can, and it goes on where "
        "that one ended"
    )
