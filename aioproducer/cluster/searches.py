"""Topics that are to be asked for by themselves, each with a backoff of its own. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aioproducer.cluster.backoff import ExponentialBackoff

_MOST_AT_ONCE: Final = 500
"""A request for more topics takes long to write, and its answer long to come."""


@dataclass(slots=True)
class _Search:
    failures: int = 0
    not_before: float = 0.0
    fresh: bool = False
    """True for a topic that was never asked for: no earlier answer is a reason to wait."""


class TopicSearches:
    """The wanted topics, and the time when each may be asked for. Times are seconds."""

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self._wanted: dict[str, _Search] = {}
        self._asked: dict[str, _Search] = {}
        """The searches under way."""
        self._earliest: float | None = None
        """A cache; None: to be found anew."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._wanted

    def want(self, topic: str, *, fresh: bool = False) -> None:
        """Ask for ``topic``; while it is wanted already, its backoff stays."""
        search = self._wanted.setdefault(topic, _Search(fresh=fresh))
        search.fresh = search.fresh or fresh
        self._earliest = None

    def forget(self, topics: Iterable[str]) -> None:
        """``topics`` are wanted no more."""
        for topic in topics:
            self._wanted.pop(topic, None)
        self._earliest = None

    def due(self, floor: float) -> float | None:
        """The time of the next request; not before ``floor`` unless it is for a fresh topic."""
        if not self._wanted:
            return None
        if self._earliest is None:
            self._earliest = min(
                -1.0 if each.fresh else each.not_before for each in self._wanted.values()
            )
        return 0.0 if self._earliest < 0 else max(self._earliest, floor)

    def take(self, now: float, floor: float) -> frozenset[str]:
        """The topics to ask for now; they are under way then."""
        due = [
            topic
            for topic, search in self._wanted.items()
            if search.fresh or max(search.not_before, floor) <= now
        ]
        return self._take(due[:_MOST_AT_ONCE])

    def take_all(self) -> None:
        """Note that a request asks for everything: all wanted topics are under way."""
        self._take(list(self._wanted))

    def _take(self, topics: Iterable[str]) -> frozenset[str]:
        self._asked = {topic: self._wanted.pop(topic) for topic in topics}
        self._earliest = None
        return frozenset(self._asked)

    def found(self, topic: str) -> None:
        """The answer says all that is wanted of ``topic``."""
        self._asked.pop(topic, None)

    def missed(self, topic: str, now: float) -> None:
        """The answer lacks something of ``topic``: ask again, later each time."""
        search = self._asked.pop(topic, None) or _Search()
        search.failures += 1
        search.not_before = now + self._backoff.delay(search.failures)
        search.fresh = False
        self._wanted[topic] = search
        self._earliest = None

    def unanswered(self) -> None:
        """No answer came: topics under way are wanted as before."""
        for topic, search in self._asked.items():
            search.fresh = False
            self._wanted.setdefault(topic, search)
        self._asked = {}
        self._earliest = None
