"""A clock that the test moves."""

from __future__ import annotations


class Clock:
    """Seconds; they stand still until the test sets ``now``."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
