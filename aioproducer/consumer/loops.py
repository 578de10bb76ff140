"""The loops of an application: asking for more acknowledges what it got before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Self

from aioproducer.consumer.assigned_partition import Work
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.session import Session
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import IllegalStateError, RecordDeserializationError
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import AnyRecord, ConsumerRecord, TopicPartition
from aioproducer.reader.record_source import RecordSource

if TYPE_CHECKING:
    from aioproducer.serialization.primitives import RecordDeserializers


class _Loop:
    """A loop of one application. ``check`` raises the error of a consumer that can't be read."""

    __slots__ = ("_check", "_progress", "_session", "_source", "clock")

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
        self.clock = session.clock

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


class RecordLoop(_Loop, ABC):
    """Records one by one."""

    __slots__ = ()

    @abstractmethod
    async def __anext__(self) -> ConsumerRecord:
        """The next record."""

    async def until(self, deadline: float) -> ConsumerRecord | None:
        """The next record; None: there is none before ``deadline``, a time of the clock, or none
        any more."""
        if deadline == inf:
            return await anext(self, None)
        bound = PatientTimeout(max(deadline - self.clock(), 0))
        try:
            async with bound:
                return await anext(self, None)
        except TimeoutError:
            if not bound.expired():
                raise
        return None

    @abstractmethod
    def put_back(self, record: ConsumerRecord) -> None:
        """Return ``record``, the last one, once more, unless it is lost or was moved."""

    @abstractmethod
    def skip(self, record: ConsumerRecord) -> None:
        """``record``, the last one, is not handed out, and counts as acknowledged."""


class Records(RecordLoop):
    """Records, of which the next step acknowledges the last one."""

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

    def put_back(self, record: ConsumerRecord) -> None:
        if self._progress.record is record:
            self._source.return_to(record.topic_partition, record.offset)
            self._progress.finish()

    def skip(self, record: ConsumerRecord) -> None:
        if self._progress.record is record:
            self._progress.finish()


class SinglyAcknowledged(RecordLoop):
    """Records that the application acknowledges in any order.

    ``most``: the number of unacknowledged records at which a step waits.
    """

    __slots__ = ("_most",)

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        session: Session,
        check: Callable[[], None],
        most: int,
    ) -> None:
        super().__init__(source, progress, session, check)
        self._most = most
        progress.singly = self

    async def __anext__(self) -> ConsumerRecord:
        progress, source = self._progress, self._source
        while True:
            if progress.singly is not self:
                raise _another_loop("record")
            await self._begin_step("record", is_mine=True)
            if progress.unacknowledged >= self._most:
                await progress.more()
                continue
            for record in source.cursor.records:
                source.cursor.last = record
                progress.begin_singly(record, self._session.clock())
                return record
            if not await source.open_next_batch():
                raise StopAsyncIteration

    def put_back(self, record: ConsumerRecord) -> None:
        work = self._progress.work_of(record.topic_partition)
        if work is not None and record.offset in work.offsets:
            self._source.return_to(record.topic_partition, record.offset)
            self.skip(record)

    def skip(self, record: ConsumerRecord) -> None:
        self._progress.acknowledge_singly(record.topic_partition, record.offset)


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
        return await self.until(self.deadline())

    def deadline(self) -> float:
        """The clock's time at which a list that begins now is empty; infinite: it never is."""
        return inf if self._max_wait is None else self.clock() + self._max_wait

    async def until(self, deadline: float) -> list[ConsumerRecord]:
        """The next list, which is empty at ``deadline``."""
        await self._begin_step("batch", self._progress.batch_of is self)
        found: list[ConsumerRecord] = []
        bound = PatientTimeout(None if deadline == inf else max(deadline - self.clock(), 0))
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
            firsts.setdefault(_where(record), record.offset)
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


class DeserializedRecords:
    """``records`` with objects. One that can't be deserialized comes again, after others."""

    def __init__(
        self,
        records: RecordLoop,
        deserializers: RecordDeserializers,
        progress: Progress,
    ) -> None:
        self._records = records
        self._deserializers = deserializers
        self._progress = progress
        self.clock = records.clock

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyRecord:
        if (found := await self.until(inf)) is None:
            raise StopAsyncIteration
        return found

    async def until(self, deadline: float) -> AnyRecord | None:
        """As :meth:`RecordLoop.until`. A record that was read in time is deserialized to its end:
        the next step would begin with it again."""
        while (record := await self._records.until(deadline)) is not None:
            work = self._progress.work_of(_where(record))
            try:
                found = await self._deserializers.record(record)
            except BaseException:
                self._records.put_back(record)
                raise
            if self._progress.counts(work):  # else its partition was lost or moved meanwhile
                if found is not None:
                    return found
                self._records.skip(record)
            if self.clock() >= deadline:
                break
        return None


class DeserializedLists:
    """``lists`` with objects. A list ends its part of a partition before a record that can't be
    deserialized; the next step raises the error."""

    def __init__(
        self,
        lists: Lists,
        deserializers: RecordDeserializers,
        source: RecordSource,
        progress: Progress,
    ) -> None:
        self._lists = lists
        self._deserializers = deserializers
        self._source = source
        self._progress = progress
        self._errors: dict[TopicPartition, tuple[Work | None, Exception]] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[AnyRecord]:
        deadline = self._lists.deadline()
        while True:
            self._raise_next_error()
            records = await self._lists.until(deadline)
            works = {where: self._progress.work_of(where) for where in map(_where, records)}
            found: list[AnyRecord] = []
            try:
                for record in records:
                    if _where(record) not in self._errors:
                        await self._take(record, works, found)
            except BaseException:
                for record in reversed(records):
                    self._put_back(record, works)
                self._progress.finish()
                raise
            found = [each for each in found if self._progress.counts(works[_where(each)])]
            if found or not records or self._lists.clock() >= deadline:
                return found

    def _raise_next_error(self) -> None:
        while self._errors:
            work, error = self._errors.pop(next(iter(self._errors)))
            if self._progress.counts(work):
                if self._progress.batch_of is self._lists:
                    self._progress.finish()
                raise error

    async def _take(
        self,
        record: ConsumerRecord,
        works: Mapping[TopicPartition, Work | None],
        found: list[AnyRecord],
    ) -> None:
        try:
            if (with_objects := await self._deserializers.record(record)) is not None:
                found.append(with_objects)
        except RecordDeserializationError as error:
            self._errors[_where(record)] = works[_where(record)], error
            self._put_back(record, works)

    def _put_back(
        self, record: ConsumerRecord, works: Mapping[TopicPartition, Work | None]
    ) -> None:
        """Hand the record out again, unless its partition is lost or was moved meanwhile."""
        where = _where(record)
        if self._progress.counts(works[where]):
            self._source.return_to(where, record.offset)


def _where(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def _another_loop(what: str) -> IllegalStateError:
    return IllegalStateError(
        f"another loop works on a {what} of this Consumer: only one at a time can, and the next "
        "continues where it ended"
    )
