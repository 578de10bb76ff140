"""A clock that the test moves, and chance that is none."""

from __future__ import annotations

from random import Random


class Clock:
    """Seconds; they stand still until the test sets ``now``."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class NoJitter(Random):
    """Draws the middle, where the jitter of a backoff is none."""

    def random(self) -> float:
        return 0.5
