"""The followers that leaders have sent a reader to (KIP-392). No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aioproducer.model import TopicPartition


class _Preference(NamedTuple):
    broker: int
    leader_epoch: int
    """Of the leader that named the broker."""
    until: float


class ReadReplicas:
    """The broker to fetch each partition from instead of its leader.

    ``lease``: the seconds after which the leader is asked again.

    Source: ``preferredReadReplica`` of Kafka's ``SubscriptionState``.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._preferred: dict[TopicPartition, _Preference] = {}
        """In the order of the ends of their leases, which are all as long."""

    def prefer(self, where: TopicPartition, broker: int, leader_epoch: int, now: float) -> None:
        """The leader has named ``broker``."""
        self._preferred.pop(where, None)
        self._preferred[where] = _Preference(broker, leader_epoch, now + self._lease)

    def forget(self, where: TopicPartition) -> bool:
        """Fetch a partition from its leader again; True if it was fetched elsewhere."""
        return self._preferred.pop(where, None) is not None

    def broker(self, where: TopicPartition, leader_epoch: int) -> int | None:
        """The broker to fetch from; None: the leader. A new leader has named none yet."""
        preference = self._preferred.get(where)
        if preference is None or preference.leader_epoch == leader_epoch:
            return None if preference is None else preference.broker
        del self._preferred[where]
        return None

    def expire(self, now: float) -> Iterator[TopicPartition]:
        """Forget the preferences whose lease is over, and tell of which partitions."""
        while (due := self.next_end) is not None and due <= now:
            where = next(iter(self._preferred))
            del self._preferred[where]
            yield where

    @property
    def next_end(self) -> float | None:
        """The time at which the next lease ends."""
        return next((each.until for each in self._preferred.values()), None)
