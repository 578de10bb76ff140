"""The hook for failed records, the handlers that it stands for, and the task that calls them.

``on_failed`` is a function that takes a :class:`FailedRecord`, or a description that makes a
handler for each producer. :class:`~aioproducer.failed_records.DeadLetterTopic` and
:class:`~aioproducer.failed_records.DeadLetterFile` are such descriptions. The
:class:`FailureWorker` gives the failed records to the handler, one call after another.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED as _FIRST
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final, Protocol

from aioproducer.config import ProducerConfig
from aioproducer.engine.sender.delivery_reports import FailedRecordQueue
from aioproducer.errors import ProducerError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner, is_being_cancelled
from aioproducer.model import FailedRecord

logger = ModuleLogger(__name__)


class FailedRecordHandler(Protocol):
    """Takes the failed records of one producer, on its event loop.

    A handler may also have a method ``hurry(timeout)``. The producer calls it when it closes in
    ``timeout`` seconds, during a call of :meth:`handle` or between two; a later call has less time.
    """

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Handle ``records``, in the order in which they failed.

        The next call comes when this one has returned. An error is logged and does not stop later
        calls. When the producer closes, a call that takes too long is cancelled.
        """

    async def close(self) -> None:
        """The producer is closed."""


class FailureFunction:
    """The handler that calls a function, plain or async, with one record after another.

    ``timeout``: seconds after which an async call is cancelled.
    """

    def __init__(self, function: Callable[[FailedRecord], object], timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Call the function with each of ``records``; its errors are logged."""
        for number, record in enumerate(records, 1):
            try:
                result = self._function(record)
                if isawaitable(result):
                    async with PatientTimeout(self._timeout):
                        await result
            except (Exception, asyncio.CancelledError) as error:
                if is_being_cancelled():
                    raise
                tell_not_handled(self._function, error, record.topic, 1)
            if not number % tuning.FAILURES_PER_TURN:
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Do nothing: the function belongs to the application."""


def handler_of(hook: Any, config: ProducerConfig) -> FailedRecordHandler:
    """The handler that ``hook``, the value of ``on_failed``, means for a producer of ``config``.

    Raises the errors of a description: ConfigError, if it can't serve such a producer.
    """
    make = getattr(hook, "handler_for", None)
    if make is None:
        return FailureFunction(hook, config.delivery_timeout_ms / 1000)
    handler: FailedRecordHandler = make(config)
    return handler


def hurry_up(handler: FailedRecordHandler, timeout: float) -> None:
    """Tell ``handler`` that the producer ends in ``timeout`` seconds, if it has ``hurry()``."""
    hurry = getattr(handler, "hurry", None)
    if hurry is not None:
        hurry(timeout)


def tell_not_handled(hook: object, error: BaseException, topic: str, records: int) -> None:
    """Write a line about ``records`` that ``hook`` was given, and did not handle."""
    logger.repeated(
        logging.ERROR,
        ("not handled", type(hook), type(error)),
        "%r failed for %s of topic %s",
        hook,
        counted(records, "failed record"),
        topic,
        exc_info=error,
        records=records,
        topic=topic,
        error=error,
    )


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
                "on_failed did not handle %s before the producer ended; give close() more time",
                counted(left, "failed record"),
                records=left,
            )
