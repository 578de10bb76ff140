"""The state and the outcome of a record of the blocking shell: cheap to make, and to resolve."""

from __future__ import annotations

import sys
from asyncio import _get_running_loop
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import Any, Final, TypeAlias

from aioproducer.engine.records.acceleration import hide, show
from aioproducer.engine.records.entry_token import EntryToken
from aioproducer.errors import IllegalStateError, ProducerError
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import plain_logger
from aioproducer.model import RecordMetadata

logger = plain_logger(__name__)

FINISHED_MEANWHILE: Final = "FINISHED_MEANWHILE"
"""Finished while the standard library looked at several futures, for which this one was pending."""
_DONE: Final = (FINISHED, FINISHED_MEANWHILE, CANCELLED, CANCELLED_AND_NOTIFIED)

_Listener: TypeAlias = Callable[[Any], object]


class ProducerThread(Thread):
    """The thread of a blocking producer, in which hooks and callbacks run."""

    def __init__(self, run: Callable[[], object], client_id: str) -> None:
        super().__init__(target=run, name=f"aioproducer-{client_id}", daemon=True)
        self.client_id = client_id
        self._waits_for: ProducerThread | None = None
        """The thread of another producer, for which a callback waits."""
        self._has_warned = False

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """The block in which the present thread waits for this one.

        Raises :class:`IllegalStateError` if it would wait for itself: it is this thread, or this
        one waits for it. The first wait in the thread of another event loop logs a warning.
        """
        here = current_thread()
        if not isinstance(here, ProducerThread):
            if not self._has_warned and _get_running_loop() is not None and not _in_notebook():
                self._has_warned = True
                logger.warning(
                    "The blocking producer %r is used in a coroutine, and its calls stop the event "
                    "loop while they wait: use aioproducer.Producer there, or asyncio.to_thread()",
                    self.client_id,
                )
            yield
            return
        former, here._waits_for = here._waits_for, self  # first: so one of two threads sees it
        try:
            other: ProducerThread | None = self
            while other is not None:
                if other is here:
                    raise IllegalStateError(self._refusal(here))
                other = other._waits_for
            yield
        finally:
            here._waits_for = former

    def _refusal(self, here: ProducerThread) -> str:
        place = f"a callback or hook of the producer {here.client_id!r}"
        if here is self:
            why = "runs in its thread, which would wait for itself"
        else:
            why = f"would wait for the producer {self.client_id!r}, whose callback waits for it"
        return (
            f"{place} {why}: only call send() there, use future.add_done_callback() instead of "
            "result(), and call what waits in another thread"
        )


def _in_notebook() -> bool:
    """True if the cells of a notebook run here: its kernel runs each of them in its event loop."""
    return "ipykernel" in sys.modules


class Outcomes:
    """The producer from which futures get their outcomes; its ``thread`` sets them."""

    __slots__ = ("held", "lost", "thread")

    def __init__(self, thread: ProducerThread) -> None:
        self.thread = thread
        self.lost: ProducerError | None = None
        """The error of pending futures in a forked child: only the parent gets outcomes."""
        self.held = 0
        """The number of conditions of futures that the standard library's functions hold, as they
        look at several futures."""

    def future(self, kind: type[Any]) -> Any:
        """A pending future of the class ``kind``; a call of the class would cost more."""
        future: RecordOutcome = kind.__new__(kind)  # type: ignore[call-overload]
        future._begin(self)
        return future

    def disown(self, error: ProducerError) -> None:
        """Fail pending futures with ``error`` in a forked child, when they are asked."""
        self.lost = error


class RecordOutcome(EntryToken):
    """The state and the outcome of one record: what :class:`RecordFuture` is made of.

    There is no lock (:mod:`aioproducer.foundation.runtime.threads`). A pending future is cancelled
    in any thread, or runs in the producer's; from then on only the producer's thread changes it.
    A listener reads the state afterwards, and the producer sets the state before it notifies.
    """

    __slots__ = ("_exception", "_listeners", "_outcomes", "_place", "_results")

    def __init__(self, outcomes: Outcomes) -> None:
        self._begin(outcomes)

    def _begin(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._state = PENDING
        self._results: Sequence[RecordMetadata] = ()
        """Those of its batch, once it has a result."""
        self._place = 0
        self._exception: BaseException | None = None
        self._listeners: list[_Listener] | None = None
        """Callables that get the future once it is done."""
        hide(self)

    # --- in any thread -----------------------------------------------------------------------

    def cancel(self) -> bool:
        if self._state == PENDING and self._outcomes.lost is None:
            self._state = CANCELLED  # no call between: no other thread, handler or finalizer runs
            show(self)
            self._tell()
        return self.cancelled()

    def cancelled(self) -> bool:
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def running(self) -> bool:
        return self._state == RUNNING

    def done(self) -> bool:
        return self._state in _DONE or (self._outcomes.lost is not None and self._fail_if_lost())

    def _fail_if_lost(self) -> bool:
        """Fail a pending future of the parent's, in a forked child; False: it is none."""
        error = self._outcomes.lost
        if error is None or self._state in _DONE:
            return False
        self._exception = error
        self._state = FINISHED_MEANWHILE if self._outcomes.held else FINISHED
        return True

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        self._listen(fn)

    def _listen(self, listener: _Listener) -> list[_Listener]:
        """Have ``listener`` called once the future is done; the list in which it is until then."""
        listeners: list[_Listener] = []
        if self._listeners is None:
            self._listeners = listeners  # no call between
        listeners = self._listeners
        listeners.append(listener)
        if self.done():
            self._tell()
        else:
            show(self)
        return listeners

    def _tell(self) -> None:
        """Call each listener once, whoever else does the same."""
        while self._listeners:
            try:
                listener = self._listeners.pop(0)
            except IndexError:
                return
            try:
                listener(self)
            except Exception:
                logger.exception("exception calling callback for %r", self)
            except BaseException:  # sys.exit() in a callback
                self._tell()
                raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            self._wait(timeout)
        if self.cancelled():
            raise CancelledError
        return self._exception

    def result(self, timeout: float | None = None) -> RecordMetadata:
        error = self._exception if self._state == FINISHED else self.exception(timeout)
        if isinstance(error, ProducerError):
            raise anew(error)
        if error is not None:
            raise error
        return self._results[self._place]

    def _wait(self, timeout: float | None) -> None:
        if timeout is not None and timeout <= 0:
            raise TimeoutError
        told: SimpleQueue[object] = SimpleQueue()
        listeners = self._listen(told.put)
        try:
            with self._outcomes.thread.waited_for():
                told.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None
        finally:
            with suppress(ValueError):
                listeners.remove(told.put)

    # --- in the producer's thread ------------------------------------------------------------

    def set_result(self, result: RecordMetadata) -> None:
        self._refuse_if_done()
        self._results = (result,)
        self._state = FINISHED_MEANWHILE if self._outcomes.held else FINISHED  # no call between
        self._tell()

    def set_exception(self, exception: BaseException | None) -> None:
        self._refuse_if_done()
        self._exception = exception
        self._state = FINISHED_MEANWHILE if self._outcomes.held else FINISHED
        show(self)
        self._tell()

    def _refuse_if_done(self) -> None:
        if self._state in _DONE:
            raise InvalidStateError(f"{self._state}: {self!r}")

    @staticmethod
    def set_results(
        futures: Sequence[RecordOutcome], results: Sequence[RecordMetadata], *_: object
    ) -> None:
        """Set the results of running futures of one producer, but of those that are done."""
        _tell_all(iter(_settle(futures, results)))


def _settle(
    futures: Sequence[RecordOutcome], results: Sequence[RecordMetadata]
) -> list[RecordOutcome]:
    """Set the results; returns the futures that have listeners."""
    outcomes: Outcomes
    told, outcomes = [], futures[0]._outcomes
    future: RecordOutcome
    place: int
    for place, future in enumerate(futures):
        if future._state == RUNNING:
            future._results = results
            future._place = place
            future._state = FINISHED_MEANWHILE if outcomes.held else FINISHED
            if future._listeners:
                told.append(future)
    return told


def _tell_all(futures: Iterator[RecordOutcome]) -> None:
    for future in futures:
        try:
            future._tell()
        except BaseException:  # sys.exit() in a callback
            _tell_all(futures)
            raise
