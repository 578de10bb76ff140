"""The future of a record of the blocking shell, for the standard library's functions too."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aioproducer.engine.client.elsewhere import fields_elsewhere
from aioproducer.model import RecordMetadata
from aioproducer.sync.record_outcome import FINISHED_MEANWHILE, Outcomes, RecordOutcome

__all__ = ["Outcomes", "RecordFuture"]


@fields_elsewhere(
    **{name: f"use .result().{name}" for name in RecordMetadata._fields},
)
class RecordFuture(RecordOutcome, Future[RecordMetadata]):
    """The outcome of one record; the records of a failed batch may share one error object.

    A plain ``Future`` makes a condition and two lists, which cost more than the record. This class
    makes a list for the first who listens.
    """

    __slots__ = ()

    def set_running_or_notify_cancel(self) -> bool:
        if self._state == PENDING:
            self._state = RUNNING  # no call between
            return True
        if self._state == CANCELLED:
            if not self._outcomes.held:  # a function that looks at it sees one state
                self._state = CANCELLED_AND_NOTIFIED
            return False
        return super().set_running_or_notify_cancel()  # raises the reason

    def __repr__(self) -> str:
        state = self._state
        told = state.partition("_")[0].lower()
        if state in (FINISHED, FINISHED_MEANWHILE):
            error = self._exception
            said = "returned" if error is None else "raised"
            told += f" {said} {(RecordMetadata if error is None else type(error)).__name__}"
        return f"<{type(self).__name__} at {id(self):#x} state={told}>"

    # --- for wait() and as_completed() of concurrent.futures ---------------------------------

    @property
    def _condition(self) -> Any:  # type: ignore[override]
        return _Condition(self._outcomes)

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)


class _Condition:
    """The lock of a future, as the standard library holds it while it looks at several futures.

    The functions look twice at each future: whether it is done, and whether they have to be told.
    The producer waits for no lock, so a future may finish in between. Then it gets a state that the
    functions do not know, so that they take it for pending both times.
    """

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    def acquire(self) -> None:
        self._outcomes.held += 1  # no call between

    def release(self) -> None:
        self._outcomes.held -= 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Waiters:
    """The list of a future's waiters, as the standard library uses it."""

    def __init__(self, future: RecordFuture) -> None:
        self._future = future

    def append(self, waiter: Any) -> None:
        if self._future._state not in (FINISHED, CANCELLED_AND_NOTIFIED):  # else it is known
            with self._future._outcomes.thread.waited_for():  # only the look: the wait comes later
                self._future._listen(_Waiter(waiter))

    def remove(self, waiter: Any) -> None:
        with suppress(ValueError):
            (self._future._listeners or []).remove(_Waiter(waiter))


@dataclass(frozen=True, slots=True)
class _Waiter:
    """Notifies a waiter of the standard library that a future is done."""

    waiter: Any

    def __call__(self, future: RecordFuture) -> None:
        if future.cancelled():
            self.waiter.add_cancelled(future)
        elif future._exception is not None:
            self.waiter.add_exception(future)
        else:
            self.waiter.add_result(future)
