"""The future of a record of the blocking shell: cheap to make, and cheap to resolve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from threading import Condition, RLock
from typing import Any, Final, Self

from aioproducer.errors import ProducerError, anew
from aioproducer.model import RecordMetadata
from aioproducer.records.acceleration import hide, show

_DONE: Final = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)

_DISOWNED: Final[dict[RLock, ProducerError]] = {}
"""The locks of the parent's producers, in a forked child, and the error of their futures there."""


def disown(lock: RLock, error: ProducerError) -> None:
    """Fail the pending futures of ``lock`` when they are asked: only the parent gets outcomes."""
    _DISOWNED[lock] = error


class RecordFuture(Future[RecordMetadata]):
    """The outcome of one record; the records of a failed batch may share one error object.

    A plain ``Future`` makes a condition and two lists, which cost more than the record. This class
    makes them for the first thread that waits. The futures of a producer share ``lock``: it guards
    every change, and every look before a wait.
    """

    __slots__ = (
        "_done_callbacks",
        "_exception",
        "_lock",
        "_result",
        "_state",
        "_waiters",
        "_watch",
    )

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._state = PENDING
        self._result: RecordMetadata | None = None
        self._exception: BaseException | None = None
        self._watch: Condition | None = None
        """The condition, once a thread waits for the outcome."""
        self._done_callbacks: Sequence[Callable[[Self], object]] = ()
        hide(self)

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        """The condition that the methods of ``Future`` and the functions beside it use."""
        with self._lock:
            self._fail_if_disowned()
            if self._watch is None:
                self._waiters: list[Any] = []
                self._watch = Condition(self._lock)
                show(self)
            return self._watch

    def _fail_if_disowned(self) -> bool:
        """Fail a pending future of the parent's, in a forked child; False: it is none."""
        error = _DISOWNED.get(self._lock)
        if error is None or self._state in _DONE:
            return False
        self._state, self._exception = FINISHED, error
        return True

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        with self._lock:
            if _DISOWNED:
                self._fail_if_disowned()
            if self._state not in _DONE:
                self._done_callbacks = (*self._done_callbacks, fn)
                show(self)
                return
        super().add_done_callback(fn)

    def cancelled(self) -> bool:
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def done(self) -> bool:
        return self._state in _DONE or (bool(_DISOWNED) and self._fail_if_disowned())

    def set_running_or_notify_cancel(self) -> bool:
        with self._lock:
            if self._state == PENDING:
                self._state = RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: RecordMetadata) -> None:
        if self._state == RUNNING:
            self.set_results((self,), (result,))
        else:
            super().set_result(result)

    @staticmethod
    def set_results(
        futures: Sequence[RecordFuture], results: Iterable[RecordMetadata], *_: object
    ) -> None:
        """Set the results of futures of one producer, but of those that are done."""
        called = []
        with futures[0]._lock:
            for future, result in zip(futures, results, strict=True):
                if future._state == RUNNING:
                    future._result = result
                    future._state = FINISHED
                    if future._watch is not None:
                        for waiter in future._waiters:
                            waiter.add_result(future)
                        future._watch.notify_all()
                    if future._done_callbacks:
                        called.append(future)
        for future in called:
            future._invoke_callbacks()  # type: ignore[attr-defined]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state == FINISHED:
            return self._exception
        if _DISOWNED and self._fail_if_disowned():
            return self._exception
        return super().exception(timeout)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        error = self._exception if self._state == FINISHED else self.exception(timeout)
        if isinstance(error, ProducerError):
            raise anew(error)
        if error is not None or self._result is None:
            return super().result(0)
        return self._result
