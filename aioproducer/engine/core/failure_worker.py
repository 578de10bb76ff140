"""The task that gives failed records to the handler of ``on_failed``, one call after another."""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED as _FIRST
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from aioproducer.engine.failures import FailedRecordHandler, hurry_up, tell_not_handled
from aioproducer.engine.sender.delivery_reports import FailedRecordQueue
from aioproducer.errors import ProducerError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import RoomLogger, counted
from aioproducer.foundation.runtime.tasks import TaskOwner, is_being_cancelled

logger = RoomLogger(__name__)

_LEAST_TO_FINISH: Final = 0.1
"""Seconds that the handler gets at the producer's end, whatever the timeout of ``close()`` is."""
_SHARE_OF_CLOSE: Final = 0.25
_MOST_OF_CLOSE: Final = 5.0
"""The part of the timeout of ``close()`` that is kept for the handler, and its bound in seconds."""

_CALL: Final[ContextVar[object]] = ContextVar("aioproducer_failure_call")
"""The call of a handler in which code runs, also in tasks that the handler has begun."""


class FailureWorker:
    """Runs while there are failed records, and owns their queue.

    The queue holds ``capacity`` bytes: a handler that is slower than records fail loses some of
    them. ``concerns``: False for the errors of records that the handler is not for.
    """

    def __init__(
        self,
        handler: FailedRecordHandler,
        capacity: int,
        concerns: Callable[[ProducerError], bool],
        owner: TaskOwner,
    ) -> None:
        self.queue = FailedRecordQueue(capacity, self._begin, concerns)
        """The failed records, for their owners."""
        self._handler = handler
        self._owner = owner
        self._task: asyncio.Task[None] | None = None
        self._call: object = None
        """The present call of the handler."""
        self._closed = False
        self._let_go: asyncio.Future[None] | None = None
        """Done once the handler itself has called ``close()``, which waits for no handler then."""
        self._handled = 0
        self._joined: list[tuple[int, asyncio.Future[None]]] = []
        """The callers of :meth:`join`: each waits until so many records were handled."""

    @property
    def left(self) -> int:
        """The number of records that are not handled yet."""
        return self.queue.added - self._handled

    @staticmethod
    def time_to_finish(timeout: float) -> float:
        """The seconds of the timeout of ``close()`` that are kept for the handler."""
        return min(timeout * _SHARE_OF_CLOSE, _MOST_OF_CLOSE)

    def _begin(self) -> None:
        if self._task is None and not self._closed:
            self._task = self._owner.start(self._run(), name="aioproducer-failed-records")

    async def _run(self) -> None:
        try:
            while records := self.queue.take(
                tuning.FAILURES_PER_CALL, tuning.FAILURE_BYTES_PER_CALL
            ):
                self._call = object()
                _CALL.set(self._call)
                try:
                    await self._handler.handle(records)
                except (Exception, asyncio.CancelledError) as error:
                    if is_being_cancelled():
                        raise
                    tell_not_handled(self._handler, error, records[0].topic, len(records))
                self._call = None
                self._handled += len(records)
                self._tell_joined()
                await asyncio.sleep(0)
        finally:
            self._task = self._call = None
            if self._is_let_go:
                self._tell_left()

    @property
    def _in_handler(self) -> bool:
        """True in the present call of the handler."""
        return self._call is not None and _CALL.get(None) is self._call

    @property
    def _is_let_go(self) -> bool:
        return self._let_go is not None and self._let_go.done()

    def closing(self) -> None:
        """Note a call of ``close()``: if it comes from the handler, let that go.

        Then the end of the producer does not wait for the handler, which continues afterwards.
        """
        task = self._task
        if task is None or not self._in_handler:
            return
        if self._let_go is None:
            self._let_go = asyncio.get_running_loop().create_future()
        if not self._let_go.done():
            self._let_go.set_result(None)
            self._owner.release(task)

    def _tell_joined(self, *, all_of_them: bool = False) -> None:
        joined, self._joined = self._joined, []
        for until, future in joined:
            if future.done():
                continue
            if all_of_them or until <= self._handled:
                future.set_result(None)
            else:
                self._joined.append((until, future))

    async def join(self) -> None:
        """Wait until the handler has returned for all records that have failed before.

        A call by the handler itself returns at once.
        """
        until = self.queue.added
        if self._closed or until <= self._handled or self._in_handler:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._joined.append((until, future))
        await future

    async def finish(self, timeout: float, cut_short: asyncio.Future[None]) -> None:
        """Let the handler run for ``timeout`` seconds, or until ``cut_short``; then end it.

        It gets a tenth of a second in any case. An abandoned handler keeps running on its own.
        """
        task = self._task
        if self._let_go is None:
            self._let_go = asyncio.get_running_loop().create_future()
        if task is not None and not self._is_let_go:
            ends = {task, self._let_go}
            hurry_up(self._handler, max(timeout, _LEAST_TO_FINISH))
            await asyncio.wait({*ends, cut_short}, timeout=max(timeout, 0), return_when=_FIRST)
            if not task.done() and not self._is_let_go:
                hurry_up(self._handler, _LEAST_TO_FINISH)
                await asyncio.wait(ends, timeout=_LEAST_TO_FINISH, return_when=_FIRST)
        self._closed = True
        if not self._is_let_go:
            self._tell_left()
            if task is not None and not task.done():
                self._owner.cancel(task)
        self._tell_joined(all_of_them=True)

    def _tell_left(self) -> None:
        if left := self.left:
            logger.error(
                "on_failed has not handled %s before the producer ended; give close() more time",
                counted(left, "failed record"),
                records=left,
            )
