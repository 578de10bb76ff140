"""The timers of coordinators, by key. Source: Kafka's ``CoordinatorTimer``."""

from __future__ import annotations

from typing import NamedTuple

from aioproducer.testing.simulation.kafka.schedule import Action, Schedule


class Key(NamedTuple):
    """The purpose of a timer."""

    group: str
    kind: str
    member_id: str = ""


class Timers:
    """Timers on the clock of a cluster."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._running: dict[Key, Action] = {}

    def start(self, key: Key, time: float, action: Action) -> None:
        """Let ``action`` happen at ``time``, in place of the earlier one of the key."""

        def expire(now: float) -> None:
            if self._running.get(key) is expire:
                del self._running[key]
                action(now)

        self._running[key] = expire
        self._schedule.at(time, expire)

    def runs(self, key: Key) -> bool:
        """True if the timer runs."""
        return key in self._running

    def cancel(self, key: Key) -> None:
        """Stop the timer, if it runs."""
        self._running.pop(key, None)

    def cancel_all(self, group: str, member_id: str | None = None) -> None:
        """Stop the timers of a group, or of one of its members."""
        for key in list(self._running):
            if key.group == group and member_id in (None, key.member_id):
                del self._running[key]
