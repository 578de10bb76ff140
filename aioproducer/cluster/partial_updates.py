"""Partial updates of metadata: topics to request alone, each with its own backoff. No I/O.

Source: KIP-526, and the new topics of Kafka's ``ProducerMetadata``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aioproducer.cluster.backoff import ExponentialBackoff

_MOST_AT_ONCE: Final = 500
"""The most topics of one request: larger ones take long to write and to answer."""


@dataclass(slots=True)
class _TopicUpdate:
    failures: int = 0
    not_before: float = 0.0


class PartialUpdates:
    """The requested topics, and the time when each may be asked for. Times are seconds.

    No step depends on the number of requested topics, apart from the logarithm of a heap.
    """

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._new: dict[str, None] = {}
        """The topics that were never requested before: they wait for no backoff."""
        self._again: dict[str, _TopicUpdate] = {}
        """The other requested topics."""
        self._due: list[tuple[float, str]] = []
        """A heap of the times in ``_again``. Entries of topics that it lacks, or that have another
        time there, are out of date."""
        self._in_flight: dict[str, _TopicUpdate] = {}
        """The topics of the request in flight."""

    def __bool__(self) -> bool:
        return bool(self._new or self._again)

    def __contains__(self, topic: str) -> bool:
        return topic in self._new or topic in self._again

    def request(self, topic: str, *, new: bool = False) -> None:
        """Request ``topic``. The backoff of a topic that is already requested stays."""
        if new:
            self._again.pop(topic, None)
            self._new[topic] = None
        elif topic not in self:
            self._add(topic, _TopicUpdate())

    def _add(self, topic: str, update: _TopicUpdate) -> None:
        self._again[topic] = update
        heapq.heappush(self._due, (update.not_before, topic))

    def forget(self, topics: Iterable[str]) -> None:
        """Request ``topics`` no longer."""
        for topic in topics:
            self._new.pop(topic, None)
            self._again.pop(topic, None)

    def due(self, floor: float) -> float | None:
        """The time of the next request; not before ``floor`` unless it is for a new topic."""
        if self._new:
            return 0.0
        first = self._first()
        return None if first is None else max(first, floor)

    def _first(self) -> float | None:
        """The earliest time in ``_again``."""
        while self._due:
            not_before, topic = self._due[0]
            update = self._again.get(topic)
            if update is not None and update.not_before == not_before:
                return not_before
            heapq.heappop(self._due)
        return None

    def take(self, now: float, floor: float) -> frozenset[str]:
        """The topics to ask for now, new ones first; they are in flight then."""
        taken = [*islice(self._new, _MOST_AT_ONCE)]
        self._in_flight = {}
        for topic in taken:
            del self._new[topic]
            self._in_flight[topic] = _TopicUpdate()
        while len(self._in_flight) < _MOST_AT_ONCE:
            first = self._first()
            if first is None or max(first, floor) > now:
                break
            _, topic = heapq.heappop(self._due)
            self._in_flight[topic] = self._again.pop(topic)
        return frozenset(self._in_flight)

    def take_all(self) -> None:
        """A full update leaves: all requested topics are in flight."""
        self._in_flight = {topic: _TopicUpdate() for topic in self._new} | self._again
        self._new = {}
        self._again = {}
        self._due = []

    def found(self, topic: str) -> None:
        """The response completes ``topic``."""
        self._in_flight.pop(topic, None)

    def missed(self, topic: str, now: float) -> None:
        """The response lacks a part of ``topic``: request it again, with a growing backoff."""
        update = self._in_flight.pop(topic, None) or _TopicUpdate()
        update.failures += 1
        update.not_before = now + self._backoff.delay(update.failures)
        self._new.pop(topic, None)
        self._add(topic, update)

    def unanswered(self) -> None:
        """No response came: the topics in flight are requested again."""
        for topic, update in self._in_flight.items():
            if topic not in self:
                self._add(topic, update)
        self._in_flight = {}
