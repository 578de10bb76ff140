"""The number of calls in some work: it says how a cost grows, on fast machines and slow ones."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any


class Calls:
    """Calls of Python and C functions so far."""

    count = 0

    def _take(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count calls of this thread."""
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls._take)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def calls_of_steps(steps: Generator[Any, Any, Any]) -> list[int]:
    """The calls in each step of a generator."""
    found: list[int] = []
    with counted_calls() as calls:
        ended = False
        while not ended:
            before = calls.count
            try:
                next(steps)
            except StopIteration:
                ended = True
            found.append(calls.count - before)
    return found


class Name(str):
    """A string whose comparisons are calls, and count."""

    __slots__ = ()

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        return super().__lt__(other)
