"""The thread of a blocking producer: its event loop, and the way of records into it.

``send()`` puts a record into the :class:`Inbox`. One coroutine, the *pump*, takes all items of the
inbox and puts their records into batches, so a burst of records wakes the loop once. A thread whose
records have to wait for a broker stalls alone.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from threading import Thread, current_thread, get_ident
from typing import Any, Final, TypeVar

from aioproducer import errors
from aioproducer.core.producer_core import ProducerCore
from aioproducer.core.send_pipeline import RecordFields
from aioproducer.sync.inbox import Inbox, Item, Marker

_Answer = TypeVar("_Answer")

_BOOKKEEPING: Final = 512  # bytes that a record in the inbox counts for beside its value
_RECORDS_PER_TURN: Final = 500  # records after which the loop may do something else
_AT_EXIT: Final = 10.0  # seconds to deliver at the interpreter's exit, for an open producer
GRACE: Final = 5.0  # seconds over its bound after which close() gives the thread up


class LoopThread:
    """Runs the event loop of ``core``. Any thread may call :meth:`enter` and :meth:`ask`."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self._process = os.getpid()
        self._thread = Thread(target=self._run, name=f"aioproducer-{core.client_id}", daemon=True)
        self._ended: Future[int] = Future()
        self._wakeup = asyncio.Event()
        self._burst: deque[Item | Marker] = deque()
        """The items that the pump has taken out of the inbox."""
        self._inbox = Inbox(core.config.buffer_memory // 32)
        """A thread that finds it empty wakes the pump."""
        self._lock = self._inbox.lock
        """Guards the fields that follow, too."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = False
        self._refusal: errors.ProducerError = errors.IllegalStateError(
            f"the producer {core.client_id!r} was not started: use `with Producer(...)`"
        )

    @property
    def running(self) -> bool:
        """True from the start to the end of the event loop."""
        return self._loop is not None

    @property
    def ended(self) -> bool:
        """True once the producer has ended, whatever the reason."""
        return self._ended.done()

    def start(self) -> None:
        """Start the thread. Raises :class:`IllegalStateError` if it was started before."""
        with self._lock:
            if self._thread.ident or isinstance(self._refusal, errors.ProducerClosedError):
                raise errors.IllegalStateError(
                    f"the producer {self._core.client_id!r} can be started once; make another"
                )
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread.start()
        atexit.register(self._close_at_exit)
        self.ask(self.catch_up)
        self._open = True

    def close(self, bound: float) -> int:
        """Deliver for ``bound`` seconds, and end. Returns the number of records given up."""
        self._check(waits=True)
        with self._lock:
            if not self._ended.done():
                self._refusal = errors.ProducerClosedError(
                    f"the producer {self._core.client_id!r} is closed; make a new Producer"
                )
            self._open = False
        self._inbox.close()
        if not self._thread.ident:
            self._core.hooks.close()
            return 0
        if not self._ended.done():
            with suppress(errors.ProducerClosedError, errors.ProducerBrokenError):
                self.ask(lambda: self._close(bound), bound + GRACE)
        self._thread.join(GRACE)
        return self._ended.result(0)

    def join(self) -> None:
        """Wait for the thread's end, for a few seconds."""
        self._thread.join(GRACE)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call ``callback`` on the event loop, if there is one still."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback, *arguments)

    # --- between the threads ---------------------------------------------------------------

    def enter(self, fields: RecordFields, future: Any, timeout: float | None = None) -> None:
        """Put a record into the inbox, waiting ``timeout`` seconds for room there.

        Raises :class:`BufferExhaustedError`, or the error of a producer that takes no records.
        """
        value = fields[1]
        if fields[5] is None:
            fields = (*fields[:5], self._core.now_ms())
        size = _BOOKKEEPING + (len(value) if isinstance(value, bytes | bytearray | str) else 0)
        self._check(waits=False)
        thread, inbox = current_thread(), self._inbox
        with self._lock:
            if not inbox.fits(thread, size):
                patience = 0 if thread is self._thread else timeout
                if not inbox.wait(thread, size, patience):
                    refused = errors.BufferExhaustedError(
                        f"no memory became free within {patience} s (max_block_ms; a callback does "
                        "not wait): send more slowly, or raise buffer_memory"
                    )
                    if self._loop is not None:
                        self._loop.call_soon_threadsafe(self._core.record_failed, refused)
                    raise refused
            if not self._open or self._loop is None:
                raise errors.anew(self._refusal)
            if inbox.put(Item(fields, future, thread, size)):
                self._loop.call_soon_threadsafe(self._wakeup.set)

    def ask(
        self, call: Callable[[], Coroutine[Any, Any, _Answer]], timeout: float | None = None
    ) -> _Answer:
        """The result of ``call`` in the loop. Raises an error if the thread ends."""
        self._check(waits=True)
        with self._lock:
            if self._loop is None:
                raise errors.anew(self._refusal)
            answer = asyncio.run_coroutine_threadsafe(call(), self._loop)
        either: list[Future[Any]] = [answer, self._ended]
        try:
            wait(either, timeout, FIRST_COMPLETED)
        finally:
            if not self._ended.done():
                answer.cancel()
        if answer.done() and not answer.cancelled():
            return answer.result()
        if self._ended.done():
            raise errors.anew(self._refusal)
        raise errors.ProducerTimeoutError(
            f"the call of producer {self._core.client_id!r} was not done within {timeout} s"
        )

    def _check(self, *, waits: bool) -> None:
        if os.getpid() != self._process:
            raise errors.WrongLoopError(f"{self._core!r} was made before a fork; make another")
        if waits and get_ident() == self._thread.ident:
            raise errors.IllegalStateError(
                f"a callback or hook of the producer {self._core.client_id!r} may call send() "
                "alone: it must not wait"
            )

    def _close_at_exit(self) -> None:
        if os.getpid() == self._process:
            self.close(_AT_EXIT)

    # --- in the producer's own thread ------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(self._pump())
            except BaseException as cause:
                error = errors.ProducerBrokenError(f"{self._thread} ended: {cause!r}")
                error.__cause__ = cause
                self._end(error, 0)

    async def _pump(self) -> None:
        """Move records into batches, in order, until the producer is closed or broken."""
        try:
            await self._core.start()
            while True:
                self._core.check_usable()
                for _ in range(min(len(self._burst), _RECORDS_PER_TURN)):
                    self._pass_on(self._burst.popleft())
                if self._burst:
                    await asyncio.sleep(0)
                    continue
                await self._wakeup.wait()
                self._wakeup.clear()
                self._burst = self._inbox.take()
        except errors.ProducerError as error:
            self._end(error, await self._core.close(None))

    def _pass_on(self, item: Item | Marker) -> None:
        if not self._inbox.keep(item) and (turn := self._put(item)) is not None:
            assert isinstance(item, Item)
            self._inbox.stall(item.thread)
            turn.add_done_callback(partial(self._resume, item.thread))

    def _resume(self, thread: Thread, turn: asyncio.Future[None]) -> None:
        """Go on with the records of ``thread``: there is room again, or the producer has ended."""
        if turn.cancelled() or turn.exception() is not None:
            self._wakeup.set()
            return
        for item in self._inbox.resume(thread):
            if (again := self._put(item)) is not None:
                again.add_done_callback(partial(self._resume, thread))
                return

    def _put(self, item: Item | Marker) -> asyncio.Future[None] | None:
        """Put a record into a batch, or let it wait; a future: its thread has to wait for that."""
        if isinstance(item, Marker):
            item.reached()
        elif item.future.set_running_or_notify_cancel():
            try:
                self._core.put(item.record, item.future, over_capacity=True, caller=item.thread)
            except Exception as error:
                item.future.set_exception(error)
                self._core.record_failed(error)
            else:
                with suppress(
                    errors.ProducerError
                ):  # the producer has ended; the pump notices it next
                    return self._core.turn(item.thread)
        return None

    async def catch_up(self) -> None:
        """Wait until the pump has all records that were sent before."""
        future: Future[None] = Future()
        with self._lock:
            self._inbox.put(Marker(future))
        self._wakeup.set()
        await asyncio.wrap_future(future)

    async def _close(self, timeout: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self.catch_up()
                    await self._core.close(timeout)
        finally:
            await self._core.close(0)
            self._wakeup.set()

    def _end(self, error: errors.ProducerError, undelivered: int) -> None:
        """End with ``error``, which all waiting and later calls raise."""
        with self._lock:
            closing = isinstance(self._refusal, errors.ProducerClosedError)
            self._refusal = error = self._refusal if closing else error
            self._loop, self._open = None, False
        self._inbox.close()
        for item in (*self._burst, *self._inbox.take_rest()):
            if isinstance(item, Marker):
                item.fail(error)
            elif item.future.set_running_or_notify_cancel():
                undelivered += closing
                item.future.set_exception(_undelivered(item.record[0]) if closing else error)
        self._burst.clear()
        atexit.unregister(self._close_at_exit)
        self._ended.set_result(undelivered)


def _undelivered(topic: object) -> errors.ProducerClosedError:
    return errors.ProducerClosedError(
        f"{topic!s:.249}: the producer was closed before this record was in a batch; give close() "
        "more time, or flush() first"
    )
