"""The topics that an Admin has just changed, and that brokers may not know yet. No I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

_SECONDS: Final = 30.0
"""The time after which every broker knows a change. A broker follows the controller's log."""


class _Change(NamedTuple):
    partitions: int
    until: float


class RecentTopics:
    """The topics that were created or got partitions, with their numbers of partitions."""

    def __init__(self) -> None:
        self._changes: dict[str, _Change] = {}

    def changed(self, topic: str, partitions: int, now: float) -> None:
        """The controller has given ``topic`` so many partitions."""
        self._changes = {name: each for name, each in self._changes.items() if each.until > now}
        self._changes[topic] = _Change(partitions, now + _SECONDS)

    def deleted(self, topic: str) -> None:
        """The controller has deleted ``topic``."""
        self._changes.pop(topic, None)

    def missing(self, topic: str, partitions: int, now: float) -> bool:
        """True if a broker that knows ``partitions`` of ``topic`` has still to learn of others."""
        change = self._changes.get(topic)
        return change is not None and partitions < change.partitions and now < change.until
