# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The loops of an application: asking for more acknowledges what it got before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

from aioproducer.consumer.progress import Progress
from aioproducer.consumer.session import Session
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import IllegalStateError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.record_source import RecordSource

_QUICK_RECORDS: Final = 16
"""Records after which a loop over records looks at the session."""
_QUICK_SECONDS: Final = 0.01
"""If they took longer, it looks after each one, and other tasks have a turn."""


class Records:
    """Records one by one. ``check`` raises the error of a consumer that can't be read."""

    __slots__ = (
        "_check",
        "_cursor",
        "_last",
        "_looked",
        "_progress",
        "_quick",
        "_session",
        "_source",
    )

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
    ) -> None:
        self._source = source
        self._cursor = source.cursor
        self._progress = progress
        self._session = session
        self._check = check
        self._last: ConsumerRecord | None = None
        self._quick = 0
        """The number of records before the next look at the session."""
        self._looked = session.real_clock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        progress = self._progress
        # Else a commit has finished the last one, or it is another loop's.
        if progress.record is self._last and (self._quick or self._is_quick()):
            self._quick -= 1
            for record in self._cursor.records:
                self._cursor.last = progress.record = self._last = record
                return record
        return await self._next()

    def _is_quick(self) -> bool:
        """True if the last records took no time in which the session may have come to its end."""
        looked, session = self._looked, self._session
        self._looked = now = session.real_clock()
        if now >= session.ends or now - looked > _QUICK_SECONDS:
            return False
        self._quick = _QUICK_RECORDS
        return True

    async def _next(self) -> ConsumerRecord:
        progress, cursor = self._progress, self._cursor
        self._check()
        if progress.record is not self._last and progress.loop_works:
            raise _another_loop("record")
        progress.finish()
        self._last = None
        await self._source.pause()
        if progress.loop_works:
            raise _another_loop("record")
        self._session.look()
        self._quick = 0
        while True:
            for record in cursor.records:
                cursor.last = progress.record = self._last = record
                return record
            if not await self._source.open_next_batch():
                raise StopAsyncIteration


class _Loop:
    """A loop over several records at a time; ``check`` is that of :class:`Records`."""

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

    async def _begin_step(self) -> None:
        """Acknowledge what the last step has given, and let other tasks run."""
        self._check()
        if self._progress.loop_works and self._progress.batch_of is not self:
            raise _another_loop("batch")
        self._progress.finish()
        await self._source.pause()
        if self._progress.loop_works:
            raise _another_loop("batch")
        self._session.look()


class Batches(_Loop):
    """Batches as they were written."""

    async def __anext__(self) -> RecordBatch:
        await self._begin_step()
        batch = await self._source.next_batch()
        if batch is None:
            raise StopAsyncIteration
        first = (batch.topic_partition, batch.first_offset)
        self._progress.began_batch(self, [first], self._session.clock())
        return batch


class Lists(_Loop):
    """Lists of the records that are there, of up to ``max_records``, one at least."""

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
        max_records: int,
    ) -> None:
        super().__init__(source, progress, session, check)
        self._max_records = max_records

    async def __anext__(self) -> list[ConsumerRecord]:
        await self._begin_step()
        source, cursor = self._source, self._source.cursor
        found: list[ConsumerRecord] = []
        while len(found) < self._max_records:
            for record in cursor.records:
                cursor.last = record
                found.append(record)
                if len(found) == self._max_records:
                    break
            else:
                if not (source.open_batch_now() if found else await source.open_next_batch()):
                    break
        if not found:
            raise StopAsyncIteration
        firsts: dict[TopicPartition, int] = {}
        for record in found:
            firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        self._progress.began_batch(self, firsts.items(), self._session.clock())
        return found


def _another_loop(what: str) -> IllegalStateError:
    return IllegalStateError(
        f"another loop works on a {what} of this Consumer: one at a time can, and it goes on where "
        "that one ended"
    )
