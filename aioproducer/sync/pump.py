"""The way of records out of the inbox, in the producer's thread: into batches, or into a wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from aioproducer import errors
from aioproducer.engine.accumulator import cancelled_by_caller
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.sending import TakenRecord
from aioproducer.engine.records.acceleration import show
from aioproducer.foundation import tuning
from aioproducer.sync.inbox import Chunk, Entry, Inbox, Marker


def starts(future: Any) -> bool:
    """True if the record of ``future`` is to be sent; its future is running from now on.

    False: it was cancelled, or the application has set an outcome.
    """
    try:
        return bool(future.set_running_or_notify_cancel())
    except RuntimeError:  # the standard library logs it too
        return bool(future.running())


class Pump:
    """Moves records in the order of the inbox, but those of a thread that stalls later."""

    def __init__(self, core: ProducerCore, inbox: Inbox) -> None:
        self._core = core
        self._serialized = bool(core.hooks.serializers) or bool(core.hooks.interceptors)
        """True: the callers have called hooks; what they have put here is checked."""
        self._inbox = inbox
        self._burst: deque[Chunk | Marker] = deque()
        """The items that were taken out of the inbox."""
        self._runs_soon = False
        self._stopped: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve the inbox until the producer is closed or broken; raises the reason."""
        self._stopped = asyncio.get_running_loop().create_future()
        self._turn()
        await self._stopped

    @property
    def runs(self) -> bool:
        """True once the producer is started."""
        return self._stopped is not None

    def wake(self) -> None:
        """Look into the inbox, now or soon."""
        if not self._runs_soon:
            self._turn()

    def rest(self) -> Iterator[Entry | Marker]:
        """Take everything that remains, at the end or when a transaction is aborted."""
        for item in (*self._burst, *self._inbox.take_rest()):
            if isinstance(item, Marker):
                yield item
            else:
                yield from map(item.entry, range(item.passed, len(item)))
        self._burst.clear()

    def _turn(self) -> None:
        """Move records until the inbox is empty, or other tasks have to run."""
        self._runs_soon = False
        stopped = self._stopped
        if stopped is None or stopped.done():
            return
        left = tuning.INBOX_RECORDS_PER_TURN
        try:
            self._core.check_usable()
            while left > 0:
                if not self._burst:
                    self._burst = self._inbox.take()
                    if not self._burst:
                        return
                left -= self._move_first(left)
        except BaseException as error:
            stopped.set_exception(error)
        else:
            self._runs_soon = True
            stopped.get_loop().call_soon(self._turn)

    def _move_first(self, most: int) -> int:
        """Move the first item of the burst, or ``most`` records of it; returns their number."""
        item = self._burst[0]
        moved = 1
        if not self._inbox.keep(item):
            if isinstance(item, Marker):
                item.reached()
            else:
                before = item.passed
                room = self._put(item, most)
                moved = item.passed - before
                if room is not None:
                    self._inbox.stall(item.thread)
                    self._inbox.keep(item)
                    room.add_done_callback(partial(self._resume, item.thread))
                elif item.passed < len(item):
                    return moved
        self._burst.popleft()
        return moved

    def _resume(self, thread: Thread, room: asyncio.Future[None]) -> None:
        """Go on with the records of ``thread``: there is room again, or the producer has ended."""
        if room.cancelled() or room.exception() is not None:
            self.wake()
            return
        for item in self._inbox.resume(thread):
            if isinstance(item, Marker):
                item.reached()
            elif (again := self._put(item, len(item))) is not None:
                again.add_done_callback(partial(self._resume, thread))
                return

    def _put(self, chunk: Chunk, most: int) -> asyncio.Future[None] | None:
        """Put records into batches, or let them wait; a future: their thread has to wait for it."""
        core, entries = self._core, chunk.entries
        end = min(len(chunk), chunk.passed + most)
        while chunk.passed < end:
            if core.fast_path.serves():
                chunk.passed += core.routes_of_bytes.append_entries(entries, chunk.passed, end)
            if chunk.passed < end:
                show(entries)  # a record's error leads to this frame, and so to the record
                chunk.passed += 1
                self._put_one(chunk.entry(chunk.passed - 1), chunk.thread)
            if core.back_pressure.is_full:
                with suppress(errors.ProducerError):  # it has ended, which the next turn notices
                    if (room := core.room_for(chunk.thread)) is not None:
                        return room
        return None

    def _put_one(self, entry: Entry, thread: Thread) -> None:
        """Put a record into a batch, or let it wait."""
        future, *fields, sent_ns = entry
        pipeline, taken = self._core.pipeline, fields[1]
        if self._serialized and type(taken) is not TakenRecord:
            taken = TakenRecord((*fields[:4], fields[4] or (), fields[5]))
        if not starts(future):
            if type(taken) is TakenRecord:
                pipeline.refused(taken, cancelled_by_caller(fields[0]))
            return
        try:
            if type(taken) is TakenRecord:
                pipeline.put_taken(taken, future, thread, sent_ns)
            else:  # it has its bytes, but was not checked
                pipeline.put(
                    tuple(fields), future, over_capacity=True, caller=thread, sent_ns=sent_ns
                )
        except Exception as error:
            future.set_exception(error)
            self._core.record_failed(error)
