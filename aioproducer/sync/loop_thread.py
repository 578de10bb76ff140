"""The thread of a blocking producer: its event loop, and the way of records into it.

``send()`` puts a record into the :class:`Inbox`. The :class:`Pump` takes all chunks of the inbox
and puts their records into batches, so a burst of records wakes the loop once. A thread whose
records have to wait for a broker stalls alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from threading import RLock, Thread, current_thread, get_ident
from typing import Any, Final, TypeVar

from aioproducer import errors
from aioproducer.core.producer_core import ProducerCore
from aioproducer.runtime import forks
from aioproducer.runtime.exits import AtExit
from aioproducer.sync import record_future
from aioproducer.sync.inbox import Entry, Inbox, Marker
from aioproducer.sync.pump import Pump
from aioproducer.sync.standstill import stops_at_forks
from aioproducer.wording import duration

_Answer = TypeVar("_Answer")

_BOOKKEEPING: Final = 512  # bytes that a record in the inbox counts for beside its key and value
_SIZED: Final = (bytes, bytearray, str)
_AT_EXIT: Final = 10.0  # seconds to deliver at the interpreter's exit, for an open producer
GRACE: Final = 5.0  # seconds over its bound after which close() gives the thread up


class LoopThread:
    """Runs the event loop of ``core``. Any thread may call :meth:`enter` and :meth:`ask`."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self._process: int | None = None
        self._thread = Thread(target=self._run, name=f"aioproducer-{core.client_id}", daemon=True)
        self._ended: Future[int] = Future()
        self._inbox = Inbox(core.config.buffer_memory // 32)
        """A thread that finds it empty wakes the pump."""
        self.futures_lock = RLock()
        """The lock of all :class:`RecordFuture` objects."""
        self._pump = Pump(core, self._inbox, self.futures_lock)
        self._at_exit: AtExit | None = None
        self._lock = self._inbox.lock
        """Guards the fields that follow, too."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = False
        self._refusal: errors.ProducerError = errors.IllegalStateError(
            f"the producer {core.client_id!r} was not started: use `with Producer(...)`, or start()"
        )

    @property
    def forked(self) -> bool:
        """True in a fork of the process that has started the thread."""
        return self._process is not None and os.getpid() != self._process

    @property
    def running(self) -> bool:
        """True from the start to the end of the event loop."""
        return self._loop is not None

    @property
    def ended(self) -> bool:
        """True once the producer has ended, whatever the reason."""
        return self._ended.done()

    def start(self, *, close_at_exit: bool) -> None:
        """Start the thread. Raises :class:`IllegalStateError` if it was started before."""
        self._check(waits=False)
        with self._lock:
            if self._thread.ident or isinstance(self._refusal, errors.ProducerClosedError):
                raise errors.IllegalStateError(
                    f"the producer {self._core.client_id!r} can be started once; make another"
                )
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            forks.owned(self)
            stops_at_forks(self)
            self._thread.start()
        if close_at_exit:
            self._at_exit = AtExit(self._close_at_exit)
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
            self._core.hooks.close_unstarted()
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

    def post(self, callback: Callable[[], object]) -> bool:
        """Call ``callback`` on the event loop of another thread; False: there is none.

        It takes no lock: a signal handler may have interrupted a call that holds one.
        """
        loop = self._loop
        if loop is None or self.forked or get_ident() == self._thread.ident:
            return False
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:  # it was closed meanwhile
            return False
        return True

    # --- between the threads ---------------------------------------------------------------

    def enter(self, entry: Entry, timeout: float | None = None) -> None:
        """Put a record into the inbox, waiting ``timeout`` seconds for room there.

        Raises :class:`BufferExhaustedError`, or the error of a producer that takes no records.
        """
        value, key = entry[2], entry[3]
        size = _BOOKKEEPING
        if type(value) is bytes or isinstance(value, _SIZED):
            size += len(value)
        if key is not None and isinstance(key, _SIZED):
            size += len(key)
        thread = current_thread()
        with self._lock:
            chunk = self._inbox.last
            if chunk is not None and chunk.thread is thread and size <= chunk.room:
                # The loop was woken for an earlier record.
                chunk.room -= size
                chunk.entries += entry
                return
            self._check(waits=False)
            if not self._inbox.fits(thread, size):
                self._wait(thread, size, 0 if thread is self._thread else timeout)
            if not self._open or self._loop is None:
                raise errors.anew(self._refusal)
            if self._inbox.empty:  # before the record is there: Ctrl-C may come between
                self._loop.call_soon_threadsafe(self._pump.wake)
            self._inbox.put(thread, entry, size)

    def _wait(self, thread: Thread, size: int, timeout: float | None) -> None:
        """Wait for room in the inbox, with the lock held."""
        if not self._inbox.wait(thread, size, timeout):
            refused = errors.BufferExhaustedError(
                f"no memory became free within {duration(timeout or 0.0)} (max_block_ms; "
                "a callback does not wait): send more slowly, or raise buffer_memory"
            )
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._core.record_failed, refused)
            raise refused

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
            f"the call of producer {self._core.client_id!r} was not done "
            f"within {duration(timeout or 0.0)}"
        )

    def _check(self, *, waits: bool) -> None:
        if self.forked:
            raise self._core.other_process()
        if waits and get_ident() == self._thread.ident:
            raise errors.IllegalStateError(
                f"a callback or hook of the producer {self._core.client_id!r} may call send() "
                "alone: it must not wait"
            )

    def disown(self) -> None:
        """Refuse every call: this process is a fork of the process that has the producer.

        Another thread may have held the locks at the fork.
        """
        self.futures_lock._at_fork_reinit()  # type: ignore[attr-defined]
        record_future.disown(self.futures_lock, self._core.other_process())
        self._inbox = Inbox(self._inbox.capacity)
        self._lock = self._inbox.lock

    def _close_at_exit(self) -> None:
        if not self.forked:
            self.close(_AT_EXIT)

    # --- in the producer's own thread ------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(self._serve())
            except BaseException as cause:
                error = errors.ProducerBrokenError(f"{self._thread} ended: {cause!r}")
                error.__cause__ = cause
                self._end(error, 0)

    async def _serve(self) -> None:
        """Run the producer until it is closed or broken."""
        try:
            await self._core.start()
            await self._pump.run()
        except errors.ProducerError as error:
            self._end(error, await self._core.close(None))

    async def catch_up(self) -> None:
        """Wait until the pump has all records that were sent before."""
        future: Future[None] = Future()
        with self._lock:
            self._inbox.mark(Marker(future))
        self._pump.wake()
        await asyncio.wrap_future(future)

    async def _close(self, timeout: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self.catch_up()
                    await self._core.close(timeout)
        finally:
            await self._core.close(0)
            self._pump.wake()

    def _end(self, error: errors.ProducerError, undelivered: int) -> None:
        """End with ``error``, which all waiting and later calls raise."""
        with self._lock:
            closing = isinstance(self._refusal, errors.ProducerClosedError)
            self._refusal = error = self._refusal if closing else error
            self._loop, self._open = None, False
        self._inbox.close()
        for each in self._pump.rest():
            if isinstance(each, Marker):
                each.fail(error)
                continue
            future, topic, *_ = each
            if future.set_running_or_notify_cancel():
                undelivered += closing
                future.set_exception(_undelivered(topic) if closing else error)
        if self._at_exit is not None:
            self._at_exit.cancel()
        self._ended.set_result(undelivered)


def _undelivered(topic: object) -> errors.ProducerClosedError:
    return errors.ProducerClosedError(
        f"{topic!s:.249}: the producer was closed before this record was in a batch; give close() "
        "more time, or flush() first"
    )
