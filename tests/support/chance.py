"""Chance that is none."""

from __future__ import annotations

from random import Random


class NoJitter(Random):
    """Draws the middle, where the jitter of a backoff is none."""

    def random(self) -> float:
        return 0.5
