"""Partial updates of metadata: topics to request alone, each with its own backoff. No I/O.

Source: KIP-526, and the new topics of Kafka's ``ProducerMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aioproducer.cluster.backoff import ExponentialBackoff

_MOST_AT_ONCE: Final = 500
"""The most topics of one request: larger ones take long to write and to answer."""


@dataclass(slots=True)
class _TopicUpdate:
    failures: int = 0
    not_before: float = 0.0
    new: bool = False
    """True for a topic that was never requested: it waits for no backoff."""


class PartialUpdates:
    """The requested topics, and the time when each may be asked for. Times are seconds."""

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._requested: dict[str, _TopicUpdate] = {}
        self._in_flight: dict[str, _TopicUpdate] = {}
        """The topics of the request in flight."""
        self._earliest: float | None = None
        """The earliest time of all; None: to be computed."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._requested

    def request(self, topic: str, *, new: bool = False) -> None:
        """Request ``topic``. The backoff of a topic that is already requested stays."""
        update = self._requested.setdefault(topic, _TopicUpdate(new=new))
        update.new = update.new or new
        self._earliest = None

    def forget(self, topics: Iterable[str]) -> None:
        """Request ``topics`` no longer."""
        for topic in topics:
            self._requested.pop(topic, None)
        self._earliest = None

    def due(self, floor: float) -> float | None:
        """The time of the next request; not before ``floor`` unless it is for a new topic."""
        if not self._requested:
            return None
        if self._earliest is None:
            self._earliest = min(
                -1.0 if each.new else each.not_before for each in self._requested.values()
            )
        return 0.0 if self._earliest < 0 else max(self._earliest, floor)

    def take(self, now: float, floor: float) -> frozenset[str]:
        """The topics to ask for now; they are in flight then."""
        due = [
            topic
            for topic, update in self._requested.items()
            if update.new or max(update.not_before, floor) <= now
        ]
        return self._take(due[:_MOST_AT_ONCE])

    def take_all(self) -> None:
        """A full update leaves: all requested topics are in flight."""
        self._take(list(self._requested))

    def _take(self, topics: Iterable[str]) -> frozenset[str]:
        self._in_flight = {topic: self._requested.pop(topic) for topic in topics}
        self._earliest = None
        return frozenset(self._in_flight)

    def found(self, topic: str) -> None:
        """The response completes ``topic``."""
        self._in_flight.pop(topic, None)

    def missed(self, topic: str, now: float) -> None:
        """The response lacks a part of ``topic``: request it again, with a growing backoff."""
        update = self._in_flight.pop(topic, None) or _TopicUpdate()
        update.failures += 1
        update.not_before = now + self._backoff.delay(update.failures)
        update.new = False
        self._requested[topic] = update
        self._earliest = None

    def unanswered(self) -> None:
        """No response came: the topics in flight are requested again."""
        for topic, update in self._in_flight.items():
            update.new = False
            self._requested.setdefault(topic, update)
        self._in_flight = {}
        self._earliest = None
