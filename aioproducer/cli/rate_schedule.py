"""A rate of records as a schedule: how many are due, and when is the next? Pure."""

from __future__ import annotations

from typing import Final

__all__ = ["RateSchedule"]

_SHORTEST_PAUSE: Final = 0.001
"""Seconds. At high rates the records of a pause leave together (Kafka's tool pauses for 2 ms)."""


class RateSchedule:
    """``rate``: records per second since ``started``; None: as many as there are.

    Source: Kafka's ``ThroughputThrottler``. What was late is caught up with.
    """

    def __init__(self, rate: float | None, started: float) -> None:
        self._rate = rate
        self._started = started

    def due(self, sent: int, now: float, at_most: int) -> int:
        """The number of records to send now, ``at_most`` of them."""
        if self._rate is None:
            return at_most
        due = int((now - self._started) * self._rate) + 1 - sent
        return min(max(0, due), at_most)

    def pause(self, sent: int, now: float) -> float:
        """Seconds until the next record is due, and never shorter than a tick."""
        if self._rate is None:
            return 0.0
        return max(_SHORTEST_PAUSE, self._started + sent / self._rate - now)
