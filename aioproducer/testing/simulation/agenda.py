"""The events of the world outside of a process, by one clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Event:
    """A moment and what happens then; it may be cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Let it not happen."""
        self.call = None


class Agenda:
    """A virtual clock, and the events that happen as it goes on."""

    def __init__(self, now: float) -> None:
        self.now = now
        """Seconds; it jumps from event to event."""
        self._events: list[tuple[float, int, Event]] = []
        self._ticket = count()

    def call_at(self, moment: float, call: Callable[[], object]) -> Event:
        """Let something happen; what is due at one moment happens in the order of these calls."""
        event = Event(call)
        heapq.heappush(self._events, (moment, next(self._ticket), event))
        return event

    def call_later(self, seconds: float, call: Callable[[], object]) -> Event:
        """Let something happen after ``seconds``."""
        return self.call_at(self.now + seconds, call)

    def clear(self) -> None:
        """Let nothing more happen."""
        self._events.clear()

    @property
    def next_moment(self) -> float | None:
        """The time of the next event; None: nothing will happen."""
        events = self._events
        while events and events[0][2].call is None:
            heapq.heappop(events)
        return events[0][0] if events else None

    def run_until(self, moment: float) -> None:
        """Let everything happen that is due up to ``moment``, which is the time then."""
        events = self._events
        while events and events[0][0] <= moment:
            due, _, event = heapq.heappop(events)
            if event.call is not None:
                self.now = max(self.now, due)
                event.call()
        self.now = max(self.now, moment)
