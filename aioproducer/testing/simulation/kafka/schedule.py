"""The future actions of a cluster, by time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

Action: TypeAlias = Callable[[float], None]
"""Gets the time."""


class Schedule:
    """Actions and their times. Actions of one time are done in the order in which they came."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = count()

    @property
    def next_time(self) -> float | None:
        """The time of the next action, if there is one."""
        return self._due[0][0] if self._due else None

    def at(self, time: float, action: Action) -> None:
        """Let ``action`` happen at ``time``."""
        heapq.heappush(self._due, (time, next(self._numbers), action))

    def take(self, now: float) -> tuple[float, Action] | None:
        """The first action that is due, and its time."""
        if self._due and self._due[0][0] <= now:
            time, _, action = heapq.heappop(self._due)
            return time, action
        return None
