"""A clock that leaves out the time in which the event loop did not turn. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BEAT: Final = 0.25
"""Seconds between two turns of the loop that a client asks for while it waits for something."""
LONGEST_TURN: Final = 2 * BEAT
"""Seconds that count at most between two turns. A process that was stopped, or a loop that the
application held, had no chance to read what arrived in the rest."""

_NEVER: Final = float("inf")


class RunningClock:
    """Seconds of ``source`` without the gaps between two calls of :meth:`turn`.

    So a stop extends every deadline, wherever it is kept. A client at rest waits for nothing, and
    its loop may sleep for long: then all time counts (:meth:`rest`), until :meth:`watch`.
    """

    __slots__ = ("_limit", "_source", "lost")

    def __init__(self, source: Callable[[], float]) -> None:
        self.lost = 0.0
        """Seconds left out so far. Connections and sessions age in them as well, so their age is
        measured by the sum of the clock's time and these."""
        self._source = source
        self._limit = _NEVER

    def __call__(self) -> float:
        """The time; it stands still from ``LONGEST_TURN`` after a turn until the next turn."""
        now = self._source() - self.lost
        return now if now < self._limit else self._limit

    def turn(self) -> float:
        """The time, in a callback that shows that the loop turns."""
        now = self._source() - self.lost
        if now > self._limit:
            self.lost += now - self._limit
            now = self._limit
        self._limit = now + LONGEST_TURN
        return now

    def rest(self) -> None:
        """Let all time count: nothing is waited for."""
        self._limit = _NEVER

    def watch(self) -> None:
        """End the rest; a turn follows."""
        self._limit = self.outside() + LONGEST_TURN

    def outside(self) -> float:
        """The time as another thread has it, for which a present gap counts."""
        return self._source() - self.lost
