"""The rest of a time limit that several steps share. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

__all__ = ["TimeLeft", "countdown", "limit_of"]


class TimeLeft(float):
    """The seconds that are left of ``limit``, which is the number that errors name."""

    limit: float

    def __new__(cls, seconds: float, limit: float) -> Self:
        left = super().__new__(cls, max(0.0, seconds))
        left.limit = limit
        return left


def countdown(limit: float, clock: Callable[[], float]) -> Callable[[], TimeLeft]:
    """The seconds that are left of ``limit``, from now on."""
    deadline = clock() + limit
    whole = limit_of(limit)
    return lambda: TimeLeft(deadline - clock(), whole)


def limit_of(seconds: float) -> float:
    """The whole limit that ``seconds`` is the rest of, or ``seconds`` itself."""
    return seconds.limit if isinstance(seconds, TimeLeft) else seconds
