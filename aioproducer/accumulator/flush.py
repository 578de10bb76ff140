"""Each ``flush()`` under way: what was there when it began, and still has no outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.waiting_line import WaitingRecord


class FlushFuture(Protocol):
    """All that a flush knows of the future that it resolves."""

    def done(self) -> bool:
        """Whether its caller gave up."""

    def set_result(self, result: None, /) -> None:
        """Everything has its outcome."""

    def set_exception(self, error: BaseException, /) -> None:
        """Not everything will have one."""


class Flush:
    """Resolves ``future`` once all of ``pending`` is done; later records do not count."""

    __slots__ = ("_future", "_pending")

    def __init__(
        self, future: FlushFuture, pending: Iterable[ProducerBatch | WaitingRecord]
    ) -> None:
        self._future = future
        self._pending = set(pending)
        self._resolve_if_done()

    @property
    def finished(self) -> bool:
        """Nothing is left to wait for, or nobody waits."""
        return self._future.done()

    def done(self, item: ProducerBatch | WaitingRecord) -> None:
        """``item`` has its outcome."""
        self._pending.discard(item)
        self._resolve_if_done()

    def moved(self, item: ProducerBatch | WaitingRecord, batch: ProducerBatch) -> None:
        """``item``, or a part of it, is in ``batch`` now and shares its fate."""
        if item in self._pending:
            self._pending.add(batch)

    def fail(self, error: BaseException) -> None:
        """Nobody will tell any more what is done."""
        if not self._future.done():
            self._future.set_exception(error)

    def _resolve_if_done(self) -> None:
        if not self._pending and not self._future.done():
            self._future.set_result(None)


class Flushes:
    """All that are under way; False where there is none."""

    __slots__ = ("_flushes",)

    def __init__(self) -> None:
        self._flushes: list[Flush] = []

    def __bool__(self) -> bool:
        return bool(self._flushes)

    def begin(self, future: FlushFuture, pending: Iterable[ProducerBatch | WaitingRecord]) -> None:
        """Resolve ``future`` once all of ``pending`` is done."""
        self._keep([*self._flushes, Flush(future, pending)])

    def done(self, item: ProducerBatch | WaitingRecord) -> None:
        """``item`` has its outcome."""
        if self._flushes:
            for flush in self._flushes:
                flush.done(item)
            self._keep(self._flushes)

    def moved(self, item: ProducerBatch | WaitingRecord, batch: ProducerBatch) -> None:
        """``item``, or a part of it, is in ``batch`` now and shares its fate."""
        for flush in self._flushes:
            flush.moved(item, batch)

    def fail(self, error: BaseException) -> None:
        """End all of them with ``error``, whatever they still wait for."""
        for flush in self._flushes:
            flush.fail(error)
        self._flushes = []

    def _keep(self, flushes: Iterable[Flush]) -> None:
        self._flushes = [flush for flush in flushes if not flush.finished]
