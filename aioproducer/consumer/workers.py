"""Handlers side by side: order where it is asked for, and no acknowledgement before its turn."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioproducer.consumer.assignment import Assignment, Hold
from aioproducer.consumer.progress import PartitionProgress, Progress
from aioproducer.consumer.session import Session
from aioproducer.errors import ClientClosedError, ConfigError, IllegalStateError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.tasks import is_being_cancelled, leave_alone, new_task
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.cursor import Cursor
from aioproducer.reader.record_source import RecordSource

logger = RoomLogger(__name__)

Handle: TypeAlias = Callable[[ConsumerRecord], Awaitable[Any]]
"""A coroutine function that works on a record."""
Order: TypeAlias = Literal["partition", "key", "none"]
"""The records that are handled one after another: those of a partition, of a key, or none."""

ORDERS: Final = ("partition", "key", "none")
_RECORD_OBJECTS: Final = 400
"""Bytes of the objects around the key and the value of a record, about."""


def no_coroutine_function(handle: object) -> ConfigError:
    """The error of a handler that returned None, and nothing to await."""
    return ConfigError(
        f"a handler is a coroutine function (async def), and {handle!r:.120} returned None"
    )


class _Task(NamedTuple):
    """A record that waits for its turn."""

    progress: PartitionProgress
    record: ConsumerRecord
    size: int


class _Lane:
    """Records that are handled one after another."""

    __slots__ = ("is_busy", "key", "tasks")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.tasks: deque[_Task] = deque()
        """The records without the one in work."""
        self.is_busy = False
        """True while one of its records is in work."""


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
        self._lanes: dict[TopicPartition, dict[Hashable, _Lane]] = {}
        """The lanes of each partition."""
        self._ready: OrderedDict[_Lane, None] = OrderedDict()
        """The lanes with a record that may begin, in the order of their turns."""
        self._rests: dict[TopicPartition, Cursor] = {}
        """The batches that are not lined up to their ends. Nothing else is taken of their
        partitions."""
        self._working: dict[asyncio.Task[None], _Task | None] = {}
        """The tasks that call the handler, and what each works on."""
        self._at_work = 0
        """The number of handlers that work."""
        self._waiting_bytes = 0
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
            for where in [*self._rests]:
                self._put_back(where)
            self._assignment.let_go(self._assignment.owned, Hold.FULL)
            for task in (self._taking, *self._working):
                task.cancel()
            await asyncio.wait({self._taking})
            while self._working:
                self._moved.clear()
                await self._moved.wait()

    def close(self, seconds: float) -> None:
        """End :meth:`run` within ``seconds``, also if handlers ignore their cancellation."""
        if not self._end.done():
            self._end.set_exception(ClientClosedError("the Consumer is closed; make a new one"))
        asyncio.get_running_loop().call_later(seconds, self._leave_alone)

    def _leave_alone(self) -> None:
        for task, work in self._working.items():
            leave_alone(task)
            if work is not None:
                logger.error(
                    "The handler of %s at offset %d ignores its cancellation: run() ends without "
                    "it, as the Consumer is closed",
                    work.progress.state.where,
                    work.record.offset,
                )
        self._working.clear()
        self._moved.set()

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        """A task has ended: by an error, or because there is nothing to do for it."""
        error = None if task.cancelled() else task.exception()
        if self._end.done():
            if error is not None:
                logger.repeated(logging.ERROR, "handlers", "another handler failed, too: %r", error)
        elif error is not None:
            self._end.set_exception(error)
        elif self._taking.done() and not self._working:
            self._end.set_result(None)

    # --- records in lanes --------------------------------------------------------------------

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
        return self._at_work + len(self._ready) < self._concurrency

    def _begin_batch(self, cursor: Cursor) -> None:
        where = cursor.where
        assert where is not None
        self._rests[where] = cursor
        self._waiting_bytes += cursor.size
        if self._line_up(where, cursor):
            self._assignment.hold((where,), Hold.FULL)

    def _line_up(self, where: TopicPartition, cursor: Cursor) -> bool:
        """Line up records of a batch; True if the partition has enough of them."""
        progress = self._progress.partitions[where]
        lanes = self._lanes.setdefault(where, {})
        most, is_enough = tuning.WORKERS_LINE, False
        for record in cursor.records:
            cursor.last = record
            size = len(record.key or b"") + len(record.value or b"") + _RECORD_OBJECTS
            progress.take(record.offset)
            self._waiting_bytes += size
            key = self._lane_of(record)
            lane = lanes.get(key)
            if begins := lane is None:
                lane = lanes[key] = _Lane(key)
                self._ready[lane] = None
            lane.tasks.append(_Task(progress, record, size))
            is_enough = len(progress.unacknowledged) >= most or (
                self._waiting_bytes >= self._room and not (begins and self._is_idle)
            )
            if is_enough:
                break
        if cursor.advance():
            return True
        del self._rests[where]
        self._waiting_bytes -= cursor.size
        return is_enough

    def _continue(self, progress: PartitionProgress) -> None:
        """Few records of a partition are left: line up more, unless others have to be first."""
        if progress.unacknowledged and self._waiting_bytes >= self._room and not self._is_idle:
            return
        where = progress.state.where
        if (cursor := self._rests.get(where)) is None:
            self._assignment.let_go((where,), Hold.FULL)
        elif not self._is_over:
            if not self._line_up(where, cursor):
                self._assignment.let_go((where,), Hold.FULL)
            self._employ()

    def _put_back(self, where: TopicPartition) -> None:
        """Keep of a batch only what is lined up."""
        if (cursor := self._rests.pop(where, None)) is not None:
            self._waiting_bytes -= cursor.size
            self._source.put_back(cursor)

    def _take_turn(self, where: TopicPartition, lane: _Lane) -> None:
        """Let a lane wait for its turn, or forget it if it is empty."""
        if lane.is_busy:
            return
        if not lane.tasks:
            self._ready.pop(lane, None)
            lanes = self._lanes[where]
            del lanes[lane.key]
            if not lanes:
                del self._lanes[where]
        elif not self._assignment.is_paused(where):
            self._ready[lane] = None

    def _lane_of(self, record: ConsumerRecord) -> Hashable:
        if self._order == "partition":
            return None
        if self._order == "key" and record.key is not None:
            return record.key
        return record.offset

    # --- handlers ----------------------------------------------------------------------------

    def _employ(self) -> None:
        """Have as many tasks as there is work, up to the concurrency."""
        if self._end.done() or self._is_over:
            return
        for _ in range(min(len(self._ready), self._concurrency - len(self._working))):
            task = new_task(self._work())
            self._working[task] = None
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._working.pop(task, None)
        self._moved.set()
        self._employ()  # if it worked on a lost partition, others may have work for a new task
        self._look_at_end(task)

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        paused = False
        while self._ready and not self._is_over:
            now = self._session.real_clock()
            long = now - self._source.turn_began > tuning.LONGEST_WORKERS_TURN
            if now >= self._session.ends or (long and not paused):
                async with self._pause:  # meanwhile none of the others begins with a record
                    await self._source.pause()
                await self._session.answer()
                paused = True  # a record follows, however long the pause took
                continue  # the group may have gone on without the member
            paused = False
            lane, _ = self._ready.popitem(last=False)
            task = lane.tasks.popleft()
            lane.is_busy = True
            where = task.progress.state.where
            self._working[me] = task
            try:
                await self._handle_one(task)
            finally:
                self._working[me] = None
                lane.is_busy = False
                self._take_turn(where, lane)

    async def _handle_one(self, task: _Task) -> None:
        progress, record, size = task
        progress.begin(record.offset, self._session.clock())
        self._at_work += 1
        try:
            work = self._handle(record)
            if work is None:
                raise no_coroutine_function(self._handle)
            await work
        except BaseException as error:
            self._progress.leave(progress, record.offset)
            was_cancelled = isinstance(error, asyncio.CancelledError)
            if was_cancelled and is_being_cancelled():
                raise
            self._is_over = True
            if was_cancelled:
                raise IllegalStateError(
                    f"the handler of {progress.state.where} at offset {record.offset} was cancelled"
                ) from error
            raise
        finally:
            self._at_work -= 1
            self._waiting_bytes -= size
            self._moved.set()
        self._progress.acknowledge(progress, record.offset)
        if len(progress.unacknowledged) <= tuning.WORKERS_LINE // 2:
            self._continue(progress)

    # --- partitions that go ------------------------------------------------------------------

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin no further record of ``partitions``, except those before finished
        ones: they would be done again. The others stay unacknowledged."""
        self._drop(partitions, lambda task: task.record.offset > task.progress.begun)

    def works_on(self, partitions: Collection[TopicPartition]) -> bool:
        """True while records of ``partitions`` wait for their turn, which comes."""
        return any(
            lane.tasks
            for where in partitions
            if not self._assignment.is_paused(where)
            for lane in self._lanes.get(where, {}).values()
        )

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no record of ``partitions`` until they are resumed."""
        for where in partitions:
            self._put_back(where)
            for lane in self._lanes.get(where, {}).values():
                self._ready.pop(lane, None)
        self._moved.set()

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Go on with ``partitions``."""
        for where in partitions:
            for lane in self._lanes.get(where, {}).values():
                self._take_turn(where, lane)
        self._employ()

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Begin with no further record of ``partitions``."""
        self._drop(partitions, lambda task: True)

    def _drop(
        self, partitions: Collection[TopicPartition], is_one: Callable[[_Task], bool]
    ) -> None:
        for where in partitions:
            self._put_back(where)
            for lane in [*self._lanes.get(where, {}).values()]:
                tasks = [*lane.tasks]
                lane.tasks.clear()
                for task in tasks:
                    if is_one(task):
                        self._waiting_bytes -= task.size
                    else:
                        lane.tasks.append(task)
                self._take_turn(where, lane)
        self._assignment.let_go(partitions, Hold.FULL)
        self._moved.set()
        self._session.wake()

    def cancel(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel the handlers that work on ``partitions``, which are lost."""
        self.drop(partitions)
        partitions = frozenset(partitions)
        for task, work in self._working.items():
            if work is not None and work.progress.state.where in partitions:
                task.cancel()
