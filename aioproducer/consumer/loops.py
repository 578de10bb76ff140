"""The loops of an application: asking for more acknowledges what it got before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from aioproducer.consumer.progress import Progress
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import IllegalStateError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.record_source import RecordSource


class Records:
    """Records one by one. ``check`` raises the error of a consumer that can't be read."""

    __slots__ = ("_check", "_cursor", "_last", "_progress", "_source")

    def __init__(self, source: RecordSource, progress: Progress, check: Callable[[], None]) -> None:
        self._source = source
        self._cursor = source.cursor
        self._progress = progress
        self._check = check
        self._last: ConsumerRecord | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        progress = self._progress
        if progress.record is self._last:  # else it was finished by a commit, or is another loop's
            for record in self._cursor.records:
                self._cursor.last = progress.record = self._last = record
                return record
        return await self._next_batch()

    async def _next_batch(self) -> ConsumerRecord:
        progress, cursor = self._progress, self._cursor
        self._check()
        if progress.record is not self._last and progress.loop_works:
            raise _another_loop("record")
        progress.finish()
        self._last = None
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
        check: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._progress = progress
        self._check = check
        self._clock = clock

    def __aiter__(self) -> Self:
        return self

    def _begin_step(self) -> None:
        """Acknowledge what the last step has given."""
        self._check()
        if self._progress.loop_works and self._progress.batch_of is not self:
            raise _another_loop("batch")
        self._progress.finish()


class Batches(_Loop):
    """Batches as they were written."""

    async def __anext__(self) -> RecordBatch:
        self._begin_step()
        batch = await self._source.next_batch()
        if batch is None:
            raise StopAsyncIteration
        first = (batch.topic_partition, batch.first_offset)
        self._progress.began_batch(self, [first], self._clock())
        return batch


class Lists(_Loop):
    """Lists of the records that are there, of up to ``max_records``, one at least."""

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        check: Callable[[], None],
        clock: Callable[[], float],
        max_records: int,
    ) -> None:
        super().__init__(source, progress, check, clock)
        self._max_records = max_records

    async def __anext__(self) -> list[ConsumerRecord]:
        self._begin_step()
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
        self._progress.began_batch(self, firsts.items(), self._clock())
        return found


def _another_loop(what: str) -> IllegalStateError:
    return IllegalStateError(
        f"another loop works on a {what} of this Consumer: one at a time can, and it goes on where "
        "that one ended"
    )
