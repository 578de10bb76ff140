"""Partial updates of metadata: topics to request alone, each with its own backoff. No I/O.

Source: KIP-526, and the new topics of Kafka's ``ProducerMetadata``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff


@dataclass(slots=True, eq=False, repr=False)
class _TopicUpdate:
    failures: int = 0
    not_before: float = 0.0


class PartialUpdates:
    """The requested topics, and the time when each may be asked for. Times are seconds.

    No step depends on the number of requested topics, apart from the logarithm of a heap.
    """

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self.new: dict[str, None] = {}
        """The topics that were never requested before: they wait for no backoff."""
        self.again: dict[str, _TopicUpdate] = {}
        """The other requested topics."""
        self._due: list[tuple[float, str]] = []
        """A heap of the times in ``again``. Entries of topics that it lacks, or that have another
        time there, are out of date."""
        self._in_flight: dict[str, _TopicUpdate] = {}
        """The topics of the request in flight."""

    def __contains__(self, topic: str) -> bool:
        return topic in self.new or topic in self.again

    def request(self, topic: str, *, new: bool = False) -> None:
        """Request ``topic``. The backoff of a topic that is already requested stays."""
        if new:
            self.again.pop(topic, None)
            self.new[topic] = None
        elif topic not in self:
            self._add(topic, _TopicUpdate())

    def _add(self, topic: str, update: _TopicUpdate) -> None:
        self.again[topic] = update
        heapq.heappush(self._due, (update.not_before, topic))

    def forget(self, topics: Iterable[str]) -> None:
        """Request ``topics`` no longer."""
        for topic in topics:
            self.new.pop(topic, None)
            self.again.pop(topic, None)

    def due(self, floor: float) -> float | None:
        """The time of the next request; not before ``floor`` unless it is for a new topic."""
        if self.new:
            return 0.0
        first = self._first()
        return None if first is None else max(first, floor)

    def _first(self) -> float | None:
        """The earliest time in ``again``."""
        while self._due:
            not_before, topic = self._due[0]
            update = self.again.get(topic)
            if update is not None and update.not_before == not_before:
                return not_before
            heapq.heappop(self._due)
        return None

    def take(self, now: float, floor: float) -> frozenset[str]:
        """The topics to ask for now, new ones first; they are in flight then."""
        taken = [*islice(self.new, tuning.TOPICS_PER_REQUEST)]
        self._in_flight = {}
        for topic in taken:
            del self.new[topic]
            self._in_flight[topic] = _TopicUpdate()
        while len(self._in_flight) < tuning.TOPICS_PER_REQUEST:
            first = self._first()
            if first is None or max(first, floor) > now:
                break
            _, topic = heapq.heappop(self._due)
            self._in_flight[topic] = self.again.pop(topic)
        return frozenset(self._in_flight)

    def take_all(self) -> None:
        """A full update leaves: all requested topics are in flight."""
        self._in_flight = {topic: _TopicUpdate() for topic in self.new} | self.again
        self.new = {}
        self.again = {}
        self._due = []

    def found(self, topic: str) -> None:
        """The response completes ``topic``."""
        self._in_flight.pop(topic, None)

    def missed(self, topic: str, now: float) -> None:
        """The response lacks a part of ``topic``: request it again, with a growing backoff."""
        update = self._in_flight.pop(topic, None) or _TopicUpdate()
        update.failures += 1
        update.not_before = now + self._backoff.delay(update.failures)
        self.new.pop(topic, None)
        self._add(topic, update)

    def unanswered(self) -> None:
        """No response came: the topics in flight are requested again."""
        for topic, update in self._in_flight.items():
            if topic not in self:
                self._add(topic, update)
        self._in_flight = {}
