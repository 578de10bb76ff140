"""Delays before a retry: exponential, with jitter (KIP-580)."""

from __future__ import annotations

from random import Random
from typing import Final

from aioproducer.foundation import tuning

_BASE: Final = 2


class ExponentialBackoff:
    """Waits from ``initial`` to ``maximum`` seconds, doubling, each 20 % more or less."""

    def __init__(self, initial: float, maximum: float, random: Random) -> None:
        self._initial = initial
        self._maximum = max(initial, maximum)
        self._random = random

    def delay(self, failures: int) -> float:
        """Seconds to wait after ``failures`` failures in a row; none after none."""
        if failures <= 0 or not self._initial:
            return 0.0
        exponent = min(failures - 1, 63)
        term = min(self._initial * float(_BASE**exponent), self._maximum)
        jittered = term * (1 + tuning.BACKOFF_JITTER * (2 * self._random.random() - 1))
        return min(jittered, self._maximum)

    def soon(self, failures: int) -> float:
        """Seconds to wait for what takes milliseconds: from 5 ms, growing by half, up to the delay.

        So an answer that is ready after some time is asked for within half of that time more.
        """
        return min(
            self.delay(failures),
            tuning.SOON_BACKOFF * tuning.SOON_BACKOFF_GROWTH ** min(failures - 1, 63),
        )
