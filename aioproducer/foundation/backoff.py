"""Delays before a retry: exponential, with jitter (KIP-580).

Whoever retries decides the pace, and counts the failures in a row; the seconds are decided here.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Final

from aioproducer.foundation import tuning

_BASE: Final = 2


class Pace(Enum):
    """The haste of a retry."""

    USUAL = "usual"
    """After a delay, which grows."""
    SOON = "soon"
    """After milliseconds: a coordinator still ends the transaction before, which takes as long."""
    AT_ONCE = "at once"
    """No broker needs time to recover."""


class ExponentialBackoff:
    """Waits from ``initial`` to ``maximum`` seconds, doubling, each 20 % more or less."""

    def __init__(self, initial: float, maximum: float, random: Random) -> None:
        self._initial = initial
        self._maximum = max(initial, maximum)
        self._random = random

    def delay(self, failures: int, pace: Pace = Pace.USUAL) -> float:
        """Seconds to wait after ``failures`` failures in a row; none after none.

        ``SOON``: from 5 ms, growing by half, up to the usual delay. So an answer that is ready
        after some time is asked for within half of that time more.
        """
        if failures <= 0 or not self._initial or pace is Pace.AT_ONCE:
            return 0.0
        exponent = min(failures - 1, 63)
        term = min(self._initial * float(_BASE**exponent), self._maximum)
        jittered = term * (1 + tuning.BACKOFF_JITTER * (2 * self._random.random() - 1))
        if pace is Pace.SOON:
            jittered = min(jittered, tuning.SOON_BACKOFF * tuning.SOON_BACKOFF_GROWTH**exponent)
        return min(jittered, self._maximum)
