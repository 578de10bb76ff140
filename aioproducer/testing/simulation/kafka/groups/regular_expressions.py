"""Subscriptions by regular expressions, which coordinators resolve in the background.

Source: Kafka's ``GroupMetadataManager.maybeUpdateRegularExpressions`` and what it begins. Kafka's
expressions are those of RE2, and Python's are taken here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerGroup
from aioproducer.testing.simulation.kafka.groups.store import GroupStore

_REGEX: Final = "regex"
_LEAST_INTERVAL: Final = 10.0
"""Seconds between two refreshes."""
_LONGEST_INTERVAL: Final = 600.0
"""Source: the broker's ``group.consumer.regex.refresh.interval.ms``."""


def is_regular_expression(text: str) -> bool:
    """True if a member may subscribe to it."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


class RegularExpressions:
    """The expressions of all groups. ``changed`` is called when a group has other topics."""

    def __init__(
        self, cluster: Cluster, store: GroupStore, changed: Callable[[ConsumerGroup], None]
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._changed = changed

    def refresh(self, group: ConsumerGroup, now: float, *, required: bool) -> None:
        """Resolve the expressions of a group soon, if it is time; ``required``: one is new."""
        if not group.regexes or self._store.has_timer(group, _REGEX):
            return
        group.forget_unused_regexes()
        since = now - group.resolved_at if group.resolved else _LONGEST_INTERVAL + 1
        if since <= _LEAST_INTERVAL:
            return
        names = self._names()
        if (
            required
            or group.regexes != group.resolved.keys()
            or not group.resolved_among.issuperset(names)
            or since > _LONGEST_INTERVAL
        ):
            self._store.start_timer(group, _REGEX, now, lambda time: self._resolve(group, time))

    def _resolve(self, group: ConsumerGroup, now: float) -> None:
        names = self._names()
        resolved = {
            each: frozenset(name for name in names if re.fullmatch(each, name))
            for each in group.regexes
        }
        other = any(
            found != group.resolved.get(each, frozenset()) for each, found in resolved.items()
        )
        group.resolved |= resolved
        group.resolved_among = frozenset(names)
        group.resolved_at = now
        if other:
            self._changed(group)
        self._store.write(group)

    def _names(self) -> list[str]:
        return [each.name for each in self._cluster.topics.values() if not each.internal]
