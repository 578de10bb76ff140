"""The calls or the lines of some work, counted: they say how a cost grows, on any machine."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import aioproducer


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


_ROOT = str(Path(aioproducer.__file__).parent)


class Lines:
    """The executed lines of this project's own code; each pass of a loop counts."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            return self.trace if frame.f_code.co_filename.startswith(_ROOT) else None
        self.count += event == "line"
        return self.trace


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count the lines that are executed in the context, in this thread."""
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
