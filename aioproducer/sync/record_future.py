"""The future of a record of the blocking shell, for the standard library's functions too."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, PENDING, RUNNING
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aioproducer.engine.client.elsewhere import fields_elsewhere
from aioproducer.model import RecordMetadata
from aioproducer.sync.record_outcome import Outcomes, RecordOutcome

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
            self._state = CANCELLED_AND_NOTIFIED
            return False
        return super().set_running_or_notify_cancel()  # raises the reason

    # --- for wait() and as_completed() of concurrent.futures ---------------------------------

    @property
    def _condition(self) -> Any:  # type: ignore[override]
        return self._outcomes.lock

    @property
    def _waiters(self) -> _Waiters:  # type: ignore[override]
        return _Waiters(self)


class _Waiters:
    """The list of a future's waiters, as the standard library uses it."""

    def __init__(self, future: RecordFuture) -> None:
        self._future = future

    def append(self, waiter: Any) -> None:
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
