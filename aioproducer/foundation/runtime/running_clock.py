"""A clock that leaves out the time in which the event loop did not turn. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

_SOON: Final = 0.25
"""Seconds in which a loop that has something to do turns."""
PART_OF_BEAT: Final = 1 / 8
"""A client that waits looks at the clock after this part of the time until something is late. At
most twice as much is added, so a stop by itself never makes anything late."""


class RunningClock:
    """Seconds of ``source`` without those in which the process was stopped, or the loop held.

    So a stop extends every deadline, wherever it is kept. The time stops at :attr:`limit`
    until :meth:`turn` shows that the loop turns; what is beyond does not count.
    """

    # Calling an attribute of an object costs Python more than calling a local name.
    __slots__ = ("_source", "limit", "lost")

    def __init__(self, source: Callable[[], float]) -> None:
        self.limit = inf
        """The last time before the next turn; infinite while nothing is waited for."""
        self.lost = 0.0
        """Seconds left out so far. The time with these is the age that brokers and firewalls
        know."""
        self._source = source

    def __call__(self) -> float:
        source = self._source
        now = source() - self.lost
        return now if now < self.limit else self.limit

    def turn(self) -> float:
        """The time, in a callback of the loop."""
        source = self._source
        now: float = source() - self.lost
        if now > self.limit:
            self.lost += now - self.limit
            now = self.limit
        return now

    def expect_turn(self, now: float | None = None) -> None:
        """Something is to be done: a turn comes soon, or the loop is held.

        ``now``: the time; None: to be read.
        """
        soon: float = (self.outside() if now is None else now) + _SOON
        if soon < self.limit:
            self.limit = soon

    def turned(self) -> None:
        """The loop turns, and will turn again soon: several turns together are no stop."""
        self.turn()
        self.limit = inf
        self.expect_turn()

    def outside(self) -> float:
        """The time for another thread, which sees how long the loop is held."""
        return self._source() - self.lost
