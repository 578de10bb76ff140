"""Handlers side by side: order where it is asked for, and no acknowledgement before its turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from itertools import islice
from math import inf
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from aioproducer.consumer.assigned_partition import NO_HANDLER, AssignedPartition, Hold, Work
from aioproducer.consumer.assignment import Assignment
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.session import Session
from aioproducer.errors import (
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    RecordDeserializationError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.foundation.runtime.tasks import is_being_cancelled, leave_alone, new_task
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.partition import Cursor
from aioproducer.reader.record_source import RecordSource

if TYPE_CHECKING:
    from aioproducer.serialization.primitives import RecordDeserializers

logger = ModuleLogger(__name__)

Handle: TypeAlias = Callable[[ConsumerRecord], Awaitable[Any]]
"""A coroutine function that works on a record."""
Order: TypeAlias = Literal["partition", "key", "none"]
"""The records that are handled one after another: those of a partition, of a key, or none."""

_PAUSED: Final = NO_HANDLER.value
ORDERS: Final = ("partition", "key", "none")
_RECORD_OBJECTS: Final = 400
"""Bytes of the objects around the key and the value of a record, about."""


def no_coroutine_function(handle: object) -> ConfigError:
    """The error of a handler that returned None, and nothing to await."""
    return ConfigError(
        f"a handler is a coroutine function (async def), and {handle!r:.120} returned None"
    )


def deserializing(handle: Callable[[Any], Any], deserializers: RecordDeserializers) -> Handle:
    """``handle``, called with the objects of records."""

    async def handle_objects(record: ConsumerRecord) -> None:
        if (found := await deserializers.record(record)) is None:
            return
        if (work := handle(found)) is None:
            raise no_coroutine_function(handle)
        await work

    return handle_objects


def _size_of(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"") + _RECORD_OBJECTS


class _Piece(NamedTuple):
    """Records that were lined up at one time."""

    last: int
    """The offset of the last one."""
    size: int
    """Bytes of their part of the batch, and of their objects."""


class _Line:
    """The records of a partition that wait for a handler, in their order.

    ``one_by_one``: one at a time is in work. ``by_key``: one of each key is.
    """

    def __init__(self, partition: AssignedPartition, order: Order) -> None:
        self._one_by_one = order == "partition"
        self._by_key = order == "key"
        self.is_queued = False
        """True: it waits for a turn."""
        self.is_short = False
        """True: no more could be lined up when a piece came to its end."""
        self.at = -1
        """The offset of the last record that has left the line."""
        self.running = 0
        """The number of records in work."""
        self.lanes: dict[bytes, deque[ConsumerRecord] | None] = {}
        """The records that wait for one of the same key, for each key in work; None: none did."""
        self.freed: deque[ConsumerRecord] = deque()
        """Those of them that may begin now."""
        self.uncounted = 0
        """The bytes that came into lanes since they were counted, without those that have left."""
        self.pieces: deque[_Piece] = deque()
        self.end: float = inf
        """The offset of the last record of the first piece."""
        self.rest: Cursor | None = None
        """The batch that is not lined up to its end."""
        self.rest_size = 0
        self.most = tuning.WORKERS_LINE
        """The number of records that wait, or are in work, up to which more are lined up."""
        self.partition: AssignedPartition = partition
        self.work: Work = partition.work
        self.waiting = self.work.waiting

    def renew(self, partition: AssignedPartition) -> None:
        """The partition begins at another place, or anew."""
        self.partition, self.work = partition, partition.work
        self.waiting = self.work.waiting

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return self.work.where

    @property
    def is_paused(self) -> bool:
        """True if the application has paused the partition, or wants other topics."""
        return bool(self.partition.holds & _PAUSED)

    @property
    def is_full(self) -> bool:
        """True while nothing else is taken of the partition."""
        return bool(self.partition.holds & Hold.FULL.value)

    def can_begin(self) -> bool:
        """True if a record may begin."""
        if not (self.waiting or self.freed) or (self._one_by_one and self.running):
            return False
        return not self.partition.holds & _PAUSED

    def is_empty(self) -> bool:
        """True if no record waits, or is in work."""
        return not (self.waiting or self.freed or self.running or self.rest)

    def startable(self) -> int:
        """The number of records that may begin side by side, about."""
        return 1 if self._one_by_one else len(self.waiting) + len(self.freed)

    def begin(self) -> ConsumerRecord | None:
        """The next record; None: the next ones wait for others of their keys."""
        record: ConsumerRecord
        if self.freed:
            record = self.freed.popleft()
            self.uncounted -= _size_of(record)
            self.running += 1
            return record
        waiting, offsets = self.waiting, self.work.offsets
        while waiting and (not self._by_key or len(offsets) < self.most):
            record = waiting.popleft()
            self.at = record.offset
            if self._by_key and (key := record.key) is not None:
                if key in self.lanes:
                    if (lane := self.lanes[key]) is None:
                        lane = self.lanes[key] = deque()
                    lane.append(record)
                    self.uncounted += _size_of(record)
                    self.work.take(record.offset)
                    continue
                self.lanes[key] = None
            self.running += 1
            return record
        return None

    def has_before(self, offset: int) -> bool:
        """True if records before ``offset`` are in work, or wait for others of their keys."""
        if any(each < offset for each, began in self.work.offsets.items() if began != inf):
            return True
        if self.is_paused:
            return False
        waiting = [*self.freed, *(lane[0] for lane in self.lanes.values() if lane)]
        return any(each.offset < offset for each in waiting)

    def finish(self, record: ConsumerRecord) -> None:
        """A record is no longer in work."""
        self.running -= 1
        if self._by_key and (key := record.key) is not None:
            if lane := self.lanes[key]:
                self.freed.append(lane.popleft())
            else:
                del self.lanes[key]

    def drop(self, *, but_gaps: bool) -> None:
        """Forget what waits, which stays unacknowledged. ``but_gaps``: keep what is before a
        record that was begun."""
        work = self.work
        for record in self.waiting:
            work.take(record.offset)
        self.waiting.clear()
        self.pieces.clear()
        self.end = inf
        last = work.begun if but_gaps else -1
        for lane in self.lanes.values():
            while lane and lane[-1].offset > last:
                self.uncounted -= _size_of(lane.pop())
        for record in [each for each in self.freed if each.offset > last]:
            self.freed.remove(record)
            self.uncounted -= _size_of(record)
            if record.key is not None:
                del self.lanes[record.key]


class _Worker:
    """A task that calls the handler with one record after another."""

    def __init__(self) -> None:
        self.record: ConsumerRecord | None = None
        """The record that the handler works on."""
        self.work: Work
        """That of the record's partition, when the handler began."""


class Workers:
    """Calls ``handle`` with each record, up to ``concurrency`` at a time.

    ``room``: bytes of records that may wait for their turn. When it is used up, records are taken
    only for idle handlers. So what waits is bounded by the room and a batch for each handler,
    whatever the number of partitions.
    """

    def __init__(
        self,
        source: RecordSource,
        progress: Progress,
        assignment: Assignment,
        session: Session,
        handle: Handle,
        concurrency: int,
        order: Order,
        room: int,
    ) -> None:
        self._source = source
        self._progress = progress
        self._assignment = assignment
        self._session = session
        self._handle = handle
        self._concurrency = concurrency
        self._order = order
        self._room = room
        self._lines: dict[TopicPartition, _Line] = {}
        self._ready: deque[_Line] = deque()
        """The lines with a record that may begin, in the order of their turns."""
        self._working: dict[asyncio.Task[None], _Worker] = {}
        """The tasks that call the handler, and what each works on."""
        self._starting: set[asyncio.Task[None]] = set()
        """Those of them that have not begun."""
        self._at_work = 0
        """The number of handlers that work."""
        self._waiting_bytes = 0
        self._clock = session.clock
        self._real_clock = session.real_clock
        self._until = 0.0
        """The real clock's time from which on other tasks have a turn, and the session a look."""
        self._is_over = False
        """A handler has failed, or run() ends: no further record begins."""
        self._pause = asyncio.Lock()
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taking: asyncio.Task[None]
        self._moved = asyncio.Event()
        """Set when there may be room again."""

    async def run(self) -> None:
        """Handle records until there are no more. Raises the first error of a handler.

        A cancellation or an error cancels the handlers that run: their records stay
        unacknowledged.
        """
        self._taking = new_task(self._take_batches())
        self._taking.add_done_callback(self._look_at_end)
        try:
            await self._end
        finally:
            self._is_over = True
            for line in self._lines.values():
                self._put_back(line)
            self._assignment.let_go(self._assignment.owned, Hold.FULL)
            for task in (self._taking, *self._working):
                task.cancel()
            await self._ended_all()

    async def _ended_all(self) -> None:
        """Wait for the handlers, also if the caller is cancelled again: their records would begin
        in the next loop."""
        again: asyncio.CancelledError | None = None
        while self._working or not self._taking.done():
            self._moved.clear()
            try:
                await self._moved.wait()
            except asyncio.CancelledError as error:
                again = error
        if again is not None:
            raise again

    def close(self, seconds: float) -> None:
        """End :meth:`run` within ``seconds``, also if handlers ignore their cancellation."""
        if not self._end.done():
            self._end.set_exception(ClientClosedError("the Consumer is closed; make a new one"))
        asyncio.get_running_loop().call_later(seconds, self._leave_alone)

    def _leave_alone(self) -> None:
        for task, worker in self._working.items():
            leave_alone(task)
            if (record := worker.record) is not None:
                logger.error(
                    "The handler of %s at offset %d ignores its cancellation: run() ends without "
                    "it, as the Consumer is closed",
                    record.topic_partition,
                    record.offset,
                )
        self._working.clear()
        self._moved.set()

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        """A task has ended: by an error, or because there is nothing to do for it."""
        self._moved.set()
        error = None if task.cancelled() else task.exception()
        if self._end.done():
            if error is not None:
                logger.repeated(logging.ERROR, "handlers", "another handler failed, too: %r", error)
        elif error is not None:
            self._end.set_exception(error)
        elif self._taking.done() and not self._working:
            self._end.set_result(None)

    # --- records in lines --------------------------------------------------------------------

    async def _take_batches(self) -> None:
        while True:
            while self._waiting_bytes >= self._room and not self._is_idle:
                self._moved.clear()
                await self._moved.wait()
            cursor = await self._source.next_cursor()
            if cursor is None:
                return
            self._begin_batch(cursor)
            self._employ()

    @property
    def _is_idle(self) -> bool:
        """True if more handlers could work than have something to do."""
        idle = self._concurrency - self._at_work
        for line in self._ready:
            idle -= line.startable()
            if idle <= 0:
                return False
        return idle > 0

    def _begin_batch(self, cursor: Cursor) -> None:
        where = cursor.where
        assert where is not None
        partition = self._progress.partitions[where]
        line = self._lines.get(where)
        if line is None:
            line = self._lines[where] = _Line(partition, self._order)
        elif line.work is not partition.work:
            line.renew(partition)
        line.rest, line.rest_size = cursor, cursor.size
        self._waiting_bytes += cursor.size
        self._line_up(line, cursor)
        is_enough = len(line.waiting) + len(line.work.offsets) >= line.most
        if is_enough or line.rest or (self._waiting_bytes >= self._room and not self._is_idle):
            self._assignment.hold((where,), Hold.FULL)

    def _line_up(self, line: _Line, cursor: Cursor) -> None:
        """Line up records of a batch."""
        share = self._concurrency // len(self._progress.partitions)
        line.most = max(tuning.WORKERS_LINE, share)
        room = line.most - len(line.waiting) - len(line.work.offsets)
        records = [*islice(cursor.records, max(room, 1))]
        line.waiting.extend(records)
        cursor.last = records[-1]
        size = line.rest_size
        if cursor.advance():
            left = length_hint(cursor.records)
            size = size * len(records) // (len(records) + left)
        else:
            line.rest = None
        line.rest_size -= size
        objects = _RECORD_OBJECTS * len(records)
        self._waiting_bytes += objects
        line.pieces.append(_Piece(records[-1].offset, size + objects))
        line.end = line.pieces[0].last
        self._take_turn(line)

    def _take_turn(self, line: _Line) -> None:
        """Let a line wait for its turn, or forget it if it is empty."""
        if line.can_begin():
            if not line.is_queued:
                line.is_queued = True
                self._ready.append(line)
        elif line.is_empty():
            self._lines.pop(line.where, None)

    def _lose_turn(self, line: _Line) -> None:
        if line.is_queued:
            line.is_queued = False
            self._ready.remove(line)

    def _count(self, line: _Line) -> None:
        self._waiting_bytes += line.uncounted
        line.uncounted = 0

    def _end_piece(self, line: _Line) -> None:
        """All records of a piece have begun, or wait for others of their keys."""
        while line.end <= line.at:
            self._waiting_bytes -= line.pieces.popleft().size
            line.end = line.pieces[0].last if line.pieces else inf
        self._moved.set()
        self._refill(line)

    def _refill(self, line: _Line) -> None:
        """Line up more if few records are left, unless others have to be first."""
        left = len(line.waiting) + len(line.work.offsets)
        line.is_short = left > line.most * 3 // 4 or bool(
            left and self._waiting_bytes >= self._room and not self._is_idle
        )
        if line.is_short or self._is_over:
            return
        if line.rest is not None:
            self._line_up(line, line.rest)
        if line.is_full and line.rest is None:
            self._assignment.let_go((line.where,), Hold.FULL)

    def _put_back(self, line: _Line) -> None:
        """Keep of a batch only what is lined up."""
        if (cursor := line.rest) is not None:
            self._waiting_bytes -= line.rest_size
            line.rest = None
            self._source.put_back(cursor)

    # --- handlers ----------------------------------------------------------------------------

    def _employ(self) -> None:
        """Begin tasks for what waits, no more than there are at work: so handlers that never wait
        have few, and the others soon have all."""
        if self._is_over or self._end.done():
            return
        most = min(self._at_work + 1, self._concurrency - len(self._working) + len(self._starting))
        while self._ready and len(self._starting) < most:
            worker = _Worker()
            task = new_task(self._work(worker))
            self._working[task] = worker
            self._starting.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._working.pop(task, None)
        self._starting.discard(task)
        self._employ()  # if it worked on a lost partition, others may have work for a new task
        self._look_at_end(task)

    async def _work(self, worker: _Worker) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._starting.discard(me)
        paused = False
        while self._ready and not (self._is_over or me.cancelling()):  # its handler may go on
            if not paused and self._real_clock() >= self._until:
                paused = await self._look()
                continue  # the group may have gone on without the member
            paused = False
            line = self._ready.popleft()
            record = self._begin(line, worker)
            if record is None:
                continue
            try:
                if (work := self._handle(record)) is None:
                    raise no_coroutine_function(self._handle)
                try:
                    await work
                except RecordDeserializationError:  # else the earlier ones might never be done
                    await self._finish_earlier(line, worker.work, record.offset)
                    raise
            except BaseException as error:
                self._progress.leave(worker.work, record.offset)
                self._give_up(error, record)
                raise
            else:
                self._progress.acknowledge(worker.work, record.offset)
            finally:
                self._finish(line, worker, record)

    async def _look(self) -> bool:
        """Give other tasks a turn, and look whether the member has its partitions.

        True: a record follows, however long it took.
        """
        session, source = self._session, self._source
        now = self._real_clock()
        self._until = min(session.ends, source.turn_began + tuning.LONGEST_WORKERS_TURN)
        if now < self._until:
            return True  # another one has just looked
        async with self._pause:  # meanwhile none of the others begins with a record
            await source.pause()
        session.look()
        if session.silent and self._taking.done():  # an answer may never come
            self.drop([*self._lines])
            return False
        await session.answer()
        return self._real_clock() < session.ends

    def _begin(self, line: _Line, worker: _Worker) -> ConsumerRecord | None:
        """Take the next record of a line, whose turn it is; None: none may begin."""
        line.is_queued = False
        record = line.begin()
        if record is not None:
            worker.record, worker.work = record, line.work
            line.work.begin(record.offset, self._clock())
            self._take_turn(line)
        if line.uncounted:
            self._count(line)
        if line.end <= line.at:
            self._end_piece(line)
        if record is not None:
            self._at_work += 1
            if self._ready and len(self._starting) <= self._at_work:
                self._employ()
        return record

    def _finish(self, line: _Line, worker: _Worker, record: ConsumerRecord) -> None:
        """The handler has returned, or failed."""
        worker.record = None
        self._at_work -= 1
        line.finish(record)
        if line.is_short:
            self._refill(line)
        self._take_turn(line)
        if self._waiting_bytes >= self._room:
            self._moved.set()

    async def _finish_earlier(self, line: _Line, work: Work, offset: int) -> None:
        """Wait while earlier records of the partition are in work, or wait for others of their
        keys."""
        progress = self._progress
        while progress.counts(work) and line.has_before(offset):
            await progress.more()

    def _give_up(self, error: BaseException, record: ConsumerRecord) -> None:
        """A handler has failed: no other begins, unless its task is to end."""
        was_cancelled = isinstance(error, asyncio.CancelledError)
        if was_cancelled and is_being_cancelled():
            return
        self._is_over = True
        if was_cancelled:
            raise IllegalStateError(
                f"the handler of {record.topic_partition} at offset {record.offset} was cancelled"
            ) from error

    # --- partitions that go ------------------------------------------------------------------

    def _those_of(self, partitions: Collection[TopicPartition]) -> list[_Line]:
        lines = self._lines
        return [lines[where] for where in partitions if where in lines]

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin no further record of ``partitions``, except those before finished
        ones: they would be done again. The others stay unacknowledged."""
        self._drop(partitions, but_gaps=True)

    def works_on(self, partitions: Collection[TopicPartition]) -> bool:
        """True while records of ``partitions`` wait for their turn, which comes."""
        return any(
            line.waiting or line.freed or any(line.lanes.values())
            for line in self._those_of(partitions)
            if not line.is_paused
        )

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no record of ``partitions`` until they are resumed."""
        for line in self._those_of(partitions):
            self._put_back(line)
            self._lose_turn(line)
        self._moved.set()

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Go on with ``partitions``."""
        for line in self._those_of(partitions):
            self._take_turn(line)
        self._employ()

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no further record of ``partitions``."""
        self._drop(partitions, but_gaps=False)

    def _drop(self, partitions: Collection[TopicPartition], *, but_gaps: bool) -> None:
        for line in self._those_of(partitions):
            self._put_back(line)
            self._waiting_bytes -= sum(piece.size for piece in line.pieces)
            line.drop(but_gaps=but_gaps)
            self._count(line)
            line.is_short = False
            self._lose_turn(line)
            self._take_turn(line)
        self._assignment.let_go(partitions, Hold.FULL)
        self._moved.set()
        self._progress.tell()
        self._session.wake()

    def cancel(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel the handlers that work on ``partitions``, which are lost."""
        self.drop(partitions)
        partitions = frozenset(partitions)
        for task, worker in self._working.items():
            record = worker.record
            if record is not None and record.topic_partition in partitions:
                task.cancel()
