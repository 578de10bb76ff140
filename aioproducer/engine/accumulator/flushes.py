# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The flushes: each waits for the batches and the pending records that came before it.

Batches and pending records belong to a *generation*, which is a number. A flush closes the present
generation: later records belong to the next one. A flush is done when no item of its generation or
of an older one is left. Flushes share a generation if no record came between them, so every step
costs the same however many flushes wait.
"""

from __future__ import annotations

from typing import Protocol


class FlushFuture(Protocol):
    """The part of a future that a flush uses."""

    def done(self) -> bool:
        """True if the caller gave up."""

    def set_result(self, result: None, /) -> None:
        """Every item that the flush waits for has its outcome."""

    def set_exception(self, error: BaseException, /) -> None:
        """An item that the flush waits for will have no outcome."""


class Flushable(Protocol):
    """A batch or a pending record."""

    generation: int


class Flushes:
    """All flushes under way; False if there is none."""

    __slots__ = ("_futures", "_newest", "_oldest", "_pending", "_waiting")

    def __init__(self) -> None:
        self._newest = 0
        """The generation of new batches and records."""
        self._oldest = 0
        """The oldest generation with items left; the newest one if no item is left."""
        self._pending: dict[int, int] = {}
        """The number of items without an outcome, by generation."""
        self._futures: dict[int, dict[FlushFuture, None]] = {}
        """The futures that wait for a generation and all before it."""
        self._waiting: dict[FlushFuture, int] = {}
        """The generation that each future waits for."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    # --- items -----------------------------------------------------------------------------

    def began(self, item: Flushable) -> None:
        """Count the new ``item``: flushes that began before do not wait for it."""
        item.generation = self._newest
        self._pending[self._newest] = self._pending.get(self._newest, 0) + 1

    def done(self, item: Flushable) -> None:
        """Stop counting ``item``: it has its outcome, or its records moved to other items."""
        self._leave(item.generation)
        while self._oldest < self._newest and self._oldest not in self._pending:
            self._resolve(self._oldest)
            self._oldest += 1

    def moved(self, item: Flushable, to: Flushable) -> None:
        """``item``, or a part of it, is in ``to`` now and shares its outcome."""
        if item.generation < to.generation:
            self._leave(to.generation)
            to.generation = item.generation
            self._pending[item.generation] += 1

    def _leave(self, generation: int) -> None:
        left = self._pending[generation] - 1
        if left:
            self._pending[generation] = left
        else:
            del self._pending[generation]

    # --- futures ---------------------------------------------------------------------------

    def begin(self, future: FlushFuture) -> None:
        """Resolve ``future`` once all batches and records of this moment have their outcome."""
        if self._newest in self._pending:
            self._newest += 1
        awaited = self._newest - 1
        if awaited < self._oldest:
            future.set_result(None)
            return
        self._waiting[future] = awaited
        self._futures.setdefault(awaited, {})[future] = None

    def give_up(self, future: FlushFuture) -> None:
        """Forget ``future``, which has no more waiters; a second or late call does nothing."""
        generation = self._waiting.pop(future, None)
        if generation is not None:
            del self._futures[generation][future]

    def fail(self, error: BaseException) -> None:
        """End all flushes with ``error`` at once."""
        waiting, self._waiting = self._waiting, {}
        self._futures.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def _resolve(self, generation: int) -> None:
        for future in self._futures.pop(generation, ()):
            del self._waiting[future]
            if not future.done():
                future.set_result(None)
