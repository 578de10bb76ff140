"""The thread of a blocking producer: its event loop, and the way of records into it.

``send()`` puts a record into the :class:`Inbox`, by the :class:`InboxWriter`. The :class:`Pump`
takes all chunks of the inbox and puts their records into batches, so a burst of records wakes the
loop once. If a thread's records have to wait for a broker, only that thread stalls.

There is no lock, and the loop waits for no other thread: see
:mod:`aioproducer.foundation.runtime.threads`.

The threads stand still while the process forks. A child that is forked while such a thread imports
a module finds the lock of that module held for ever, because it has no such thread. Its own
producer would wait for it at the same import.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from threading import Thread, get_ident, local
from time import monotonic
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from aioproducer import errors
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.sending import TakenRecord
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.forks import AtExit
from aioproducer.foundation.runtime.tasks import new_visible_task
from aioproducer.sync.inbox import Inbox, InboxWriter, Marker
from aioproducer.sync.pump import Pump, starts
from aioproducer.sync.record_future import Outcomes
from aioproducer.sync.record_outcome import ProducerThread

_LONGEST: Final = 1.0
"""Seconds after which a fork stops waiting for busy threads, and stopped threads for the fork."""


class Stoppable(Protocol):
    """A thread with an event loop."""

    def post(self, callback: Callable[[], object]) -> bool:
        """Call ``callback`` in the thread soon; False: never. It takes no lock and never waits."""


class _Standstill:
    """Threads that stand still until the fork is over."""

    def __init__(self) -> None:
        self._ends: list[SimpleQueue[None]] = []
        self._reached: SimpleQueue[None] = SimpleQueue()
        self._deadline = monotonic() + _LONGEST

    def stop(self, thread: Stoppable) -> None:
        end: SimpleQueue[None] = SimpleQueue()

        def stand() -> None:
            self._reached.put(None)
            with suppress(Empty):
                end.get(timeout=_LONGEST)

        if thread.post(stand):
            self._ends.append(end)

    def wait(self) -> None:
        """Wait until all threads stand still, or the bound is over."""
        with suppress(Empty):
            for _ in self._ends:
                self._reached.get(timeout=max(0.0, self._deadline - monotonic()))

    def end(self) -> None:
        """Let the threads go on."""
        for end in self._ends:
            end.put(None)


_THREADS: Final[weakref.WeakKeyDictionary[Stoppable, None]] = weakref.WeakKeyDictionary()
_present = local()
"""The standstill of a thread that forks."""


def stops_at_forks(thread: Stoppable) -> None:
    """Have ``thread`` stand still during forks, as long as the object lives."""
    _THREADS[thread] = None


def _before() -> None:
    _present.standstill = standstill = _Standstill()
    for reference in _THREADS.keyrefs():  # in one step: other threads start producers
        if (thread := reference()) is not None:
            standstill.stop(thread)
    standstill.wait()


def _after() -> None:
    _present.standstill.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after)


_Answer = TypeVar("_Answer")

GRACE: Final = 5.0  # seconds over its bound after which close() gives the thread up


class LoopThread:
    """Runs the event loop of ``core``. Any thread may use :attr:`writer` and call :meth:`ask`.

    ``inbox`` and ``pump``: the path of the records, if it is not the usual one.
    """

    def __init__(
        self, core: ProducerCore, inbox: Inbox | None = None, pump: Pump | None = None
    ) -> None:
        self._core = core
        self._process: int | None = None
        self._thread = ProducerThread(self._run, core.client_id)
        self._unstarted = [self._thread]
        """Empty once :meth:`start` or :meth:`close` was called."""
        self._undelivered: int | None = None
        """The number of records given up; None until the end."""
        self._inbox = Inbox(core.config.buffer_memory // 32) if inbox is None else inbox
        self.outcomes = Outcomes(self._thread)
        """The owner of all :class:`RecordFuture` objects."""
        self.writer = InboxWriter(self._inbox, self, self.outcomes, core)
        """The way of records into the inbox."""
        self._pump = Pump(core, self._inbox) if pump is None else pump
        self._questions: dict[_Question[Any], None] = {}
        """The calls of :meth:`ask`."""
        self._at_exit: AtExit | None = None
        self._loops: SimpleQueue[asyncio.AbstractEventLoop | None] = SimpleQueue()
        """The loop for the thread; None: the start has failed."""
        self._begun: SimpleQueue[None] = SimpleQueue()
        """Something, once calls reach the loop or the producer has ended without one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        """The task of :meth:`_serve`."""
        self._unused = errors.IllegalStateError(
            f"the producer {core.client_id!r} was not started: use `with Producer(...)`, or start()"
        )
        self._refusal: errors.ProducerError = self._unused

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
        return self._undelivered is not None

    @property
    def why_ended(self) -> errors.ProducerError | None:
        """The error of all calls, once the producer has ended; None: it has not."""
        return self._refusal if self.ended else None

    def start(self, *, close_at_exit: bool) -> None:
        """Start the thread. Raises :class:`IllegalStateError` if it was started before.

        If anything interrupts the start, the producer ends.
        """
        self._check(waits=False)
        try:
            thread = self._unstarted.pop()
        except IndexError:
            raise errors.IllegalStateError(
                f"the producer {self._core.client_id!r} can be started once; make another"
            ) from None
        try:
            self._begin(thread, close_at_exit=close_at_exit)
            self.ask(self.catch_up)
        except BaseException as cause:
            self.abandon(self._interrupted(cause))
            raise
        if self._refusal is self._unused:
            self.writer.is_open = True  # no call between: close() comes before or afterwards

    def _begin(self, thread: Thread, *, close_at_exit: bool) -> None:
        """Start ``thread``, and give it a loop. If that fails, the producer has ended."""
        try:
            self._process = os.getpid()
            forks.owned(self)
            stops_at_forks(self)
            if close_at_exit:
                self._at_exit = AtExit(self._close_at_exit)  # first: the end cancels it
            thread.start()
            self._loop = asyncio.new_event_loop()
        except BaseException as cause:
            self._loops.put(None)
            self._core.hooks.close_unstarted()
            self._end(self._interrupted(cause), 0)
            raise
        else:
            self._loops.put(self._loop)
        finally:
            self._begun.put(None)

    def _interrupted(self, cause: BaseException) -> errors.ProducerError:
        return errors.ProducerBrokenError(
            f"the start of the producer {self._core.client_id!r} was interrupted: {cause!r}"
        )

    def abandon(self, error: errors.ProducerError) -> None:
        """Refuse all calls with ``error``, and end soon, delivering nothing more.

        The call does nothing if the producer is closed, or has ended.
        """
        if self._refusal is self._unused:
            self._refusal = error
            self._shut()
            self.call_soon(lambda: new_visible_task(self._close(0), "aioproducer-abandoned"))

    @property
    def _is_closed(self) -> bool:
        return isinstance(self._refusal, errors.ProducerClosedError)

    def close(self, bound: float) -> int:
        """Deliver for ``bound`` seconds, and end. Returns the number of records given up."""
        self._check(waits=True)
        if not self.ended:
            self._refusal = errors.ProducerClosedError(
                f"the producer {self._core.client_id!r} is closed; make a new Producer"
            )
        self.writer.is_open = False
        self._inbox.close()
        if self._unstarted:
            self._undelivered = 0  # first: another close() finds the end, or what was not started
            self._unstarted.clear()
            self._core.hooks.close_unstarted()
        if not self.ended:
            self._wait_for_start()
            with suppress(errors.ProducerClosedError, errors.ProducerBrokenError):
                self.ask(lambda: self._close(bound), bound + GRACE)
        self.join()
        if self._undelivered is None:
            raise errors.ProducerTimeoutError(
                f"the thread of the producer {self._core.client_id!r} did not end within "
                f"{bound + GRACE:g} s: is a callback or hook busy in it?"
            )
        return self._undelivered

    def _wait_for_start(self) -> None:
        """Wait while another thread is within :meth:`start`: the loop can't be asked yet."""
        if not self.running:
            with suppress(Empty):
                self._begun.put(self._begun.get(timeout=GRACE))

    def join(self) -> None:
        """Wait for the thread's end, for a few seconds."""
        if self._thread.ident:
            with suppress(RuntimeError):  # an interrupt came as it began, and it will end at once
                self._thread.join(GRACE)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> bool:
        """Call ``callback`` on the event loop; False: it has ended."""
        loop = self._loop
        if loop is None or self.forked:
            return False
        try:
            loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # it was closed meanwhile
            return False
        return True

    def post(self, callback: Callable[[], object]) -> bool:
        """Call ``callback`` on the event loop of another thread; False: there is none."""
        return get_ident() != self._thread.ident and self.call_soon(callback)

    # --- between the threads ---------------------------------------------------------------

    def wake(self) -> None:
        """Let the pump look into the inbox."""
        self.call_soon(self._pump.wake)

    def refuse(self) -> NoReturn:
        """Raise the reason for which the producer takes no records."""
        self._check(waits=False)
        raise anew(self._refusal)

    def wait_for_room(self, thread: Thread, size: int, timeout: float | None) -> None:
        """Wait for room in the inbox; the producer's own thread does not wait."""
        timeout = 0 if thread is self._thread else timeout
        with nullcontext() if timeout == 0 else self._thread.waited_for():
            fits = self._inbox.wait(thread, size, timeout)
        if not fits:
            refused = errors.BufferExhaustedError(
                f"no memory became free within {duration(timeout or 0.0)} (max_block_ms; "
                "a callback does not wait): send more slowly, or raise buffer_memory"
            )
            self.call_soon(self._core.record_failed, refused)
            raise refused

    def ask(
        self, call: Callable[[], Coroutine[Any, Any, _Answer]], timeout: float | None = None
    ) -> _Answer:
        """The result of ``call`` in the loop. Raises an error if the thread ends."""
        self._check(waits=True)
        question = _Question(call)
        try:
            self._questions[question] = None
            if not self.call_soon(question.ask):
                raise anew(self._refusal)
            with suppress(Empty), self._thread.waited_for():
                question.answers.get(timeout=timeout)
        finally:
            self._questions.pop(question, None)
            if not question.answered:
                self.call_soon(question.cancel)
        if question.answered:
            return question.answer
        if self.ended:
            raise anew(self._refusal)
        raise errors.ProducerTimeoutError(
            f"the call of producer {self._core.client_id!r} was not done "
            f"within {duration(timeout or 0.0)}"
        )

    def _check(self, *, waits: bool) -> None:
        if self.forked:
            raise self._core.lifecycle.other_process()
        if waits:
            with self._thread.waited_for():
                pass

    def disown(self) -> None:
        """Refuse every call: this process is a fork of the process that has the producer."""
        self._shut()
        self.outcomes.disown(self._core.lifecycle.other_process())

    def _shut(self) -> None:
        """Take no more records; :attr:`_refusal` is the reason."""
        self.writer.is_open = False

    def _close_at_exit(self) -> None:
        if not self.forked:
            self.close(self._core.close_bound(at_end=True))

    # --- in the producer's own thread ------------------------------------------------------

    def _run(self) -> None:
        loop = self._loops.get()
        if loop is None:
            return
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(self._serve())
            except BaseException as cause:
                error = errors.ProducerBrokenError(f"{self._thread} ended: {cause!r}")
                error.__cause__ = cause
                loop.call_soon(self._core.part_died, error)  # before the end of the loop closes it
                self._end(error, 0)

    async def _serve(self) -> None:
        """Run the producer until it is closed or broken."""
        self._serving = asyncio.current_task()
        try:
            await self._start_core()
            await self._pump.run()
        except errors.ProducerError as error:
            self._end(error, await self._core.close(None))

    async def _start_core(self) -> None:
        await self._core.start()
        if (transactions := self._core.engine.transactions) is not None:
            transactions.on_abort = self._discard
            transactions.records_come = self.catch_up

    def _discard(self) -> None:
        """The transaction is aborted: no record that waits for the loop is put into a batch."""
        self._fail_rest(
            lambda topic: errors.TransactionAbortedError(
                f"{topic!s:.249}: discarded, because its transaction is aborted"
            ),
            Marker.reached,
        )

    async def catch_up(self) -> None:
        """Wait until the pump has all records that were sent before."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.mark(Marker(future))
        self._pump.wake()
        await future

    async def _close(self, timeout: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    if self._pump.runs:
                        await self.catch_up()
                    await self._core.close(timeout)
        finally:
            await self._core.close(0)
            self._pump.wake()
            if not self._pump.runs and self._serving is not None:
                self._serving.cancel()  # the start may wait for names or a token, say

    def _end(self, error: errors.ProducerError, undelivered: int) -> None:
        """End with ``error``, which all waiting and later calls raise."""
        if self._refusal is self._unused:
            self._refusal = error
        error, closing = self._refusal, self._is_closed
        self._loop = self._serving = None
        self._shut()
        self._inbox.close()
        failed = self._fail_rest(
            lambda topic: _undelivered(topic) if closing else error,
            lambda marker: marker.fail(error),
        )
        undelivered += failed if closing else 0
        if self._at_exit is not None:
            self._at_exit.cancel()
        self._undelivered = undelivered
        for question in self._questions.copy():
            question.answers.put(None)

    def _fail_rest(
        self,
        reason_of: Callable[[object], errors.ProducerError],
        at_marker: Callable[[Marker], None],
    ) -> int:
        """Fail the records that are in no batch, by their topics; returns their number."""
        failed = 0
        for each in self._pump.rest():
            if isinstance(each, Marker):
                at_marker(each)
                continue
            future, topic, value, *_ = each
            reason = reason_of(topic)
            if type(value) is TakenRecord:
                self._core.pipeline.refused(value, reason)
            if starts(future):
                failed += 1
                with suppress(BaseException):  # a callback's sys.exit() concerns no other record
                    future.set_exception(reason)
        return failed


class _Question(Generic[_Answer]):
    """A call that the loop answers, for a thread that waits."""

    def __init__(self, call: Callable[[], Coroutine[Any, Any, _Answer]]) -> None:
        self._call = call
        self._task: asyncio.Task[_Answer] | None = None
        self.answers: SimpleQueue[object] = SimpleQueue()
        """Something, once there is an answer or the loop has ended."""

    def ask(self) -> None:
        """Begin, in the loop."""
        self._task = new_visible_task(self._call())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[_Answer]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio logs none: a thread that no longer waits got another answer
        self.answers.put(task)

    def cancel(self) -> None:
        """End the call, in the loop: nobody waits any more."""
        if self._task is not None:
            self._task.cancel()

    @property
    def answered(self) -> bool:
        """True if the call has ended by itself."""
        task = self._task
        return task is not None and task.done() and not task.cancelled()

    @property
    def answer(self) -> _Answer:
        """The result of the call, or its error."""
        assert self._task is not None
        return self._task.result()


def _undelivered(topic: object) -> errors.ProducerClosedError:
    return errors.ProducerClosedError(
        f"{topic!s:.249}: the producer was closed before this record was in a batch; give close() "
        "more time, or flush() first"
    )
