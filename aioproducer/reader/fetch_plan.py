"""The broker that each partition is fetched from, and how. No I/O.

A partition is looked at again only if something has changed for it, so that idle partitions cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from aioproducer.model import Node, TopicPartition
from aioproducer.reader.leaders import Leader, Leaders
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.read_ahead import ReadAhead
from aioproducer.reader.requests import FetchPartition, FetchSession

_LOOKS_AT_ONCE: Final = 1_000
"""Partitions that are looked at in one turn of the event loop. Each takes some microseconds."""


class Doubt(NamedTuple):
    """A partition whose new leader may lack what was read (KIP-320)."""

    state: PartitionState
    leader: Leader


class FetchPlan:
    """Divides the partitions of ``read_ahead`` among the sessions with their brokers.

    ``lease``: the seconds for which a follower is fetched from that a leader has named.
    """

    def __init__(self, read_ahead: ReadAhead, leaders: Leaders, lease: float) -> None:
        self._read_ahead = read_ahead
        self._leaders = leaders
        self._replicas = ReadReplicas(lease)
        self.sessions: dict[int, FetchSession] = {}
        """By the ids of brokers. Some have no partition to fetch now."""
        self._sources: dict[TopicPartition, int] = {}
        self.sources: Mapping[TopicPartition, int] = MappingProxyType(self._sources)
        """The broker of each partition that can be fetched now."""
        self._waiting: dict[TopicPartition, float] = {}
        """The end of the backoff of partitions."""
        self._first_end = inf
        """The first of these ends, or an earlier time."""
        self.is_behind = False
        """True if there are more changes than one update looks at."""
        self._doubts: dict[TopicPartition, Doubt] = {}
        self._held: set[TopicPartition] = set()
        self.lacks_leaders = False
        """True if a partition has had no known leader when it was looked at last, or a follower
        that is down."""

    # --- changes ---------------------------------------------------------------------------

    def hold(self, where: TopicPartition) -> None:
        """Fetch a partition from nowhere until :meth:`let_go`."""
        self._held.add(where)
        self._read_ahead.changes[where] = None

    def let_go(self, where: TopicPartition) -> None:
        """Fetch a partition again."""
        self._held.discard(where)
        self._read_ahead.changes[where] = None

    def prefer(self, state: PartitionState, broker: int, now: float) -> bool:
        """Fetch a partition from the follower that its leader has named; False: it is not there.

        The follower is fetched from until

        - a fetch from there fails, as a whole or for the partition (:meth:`failed`);
        - the epoch of the leader changes;
        - the follower is unknown, or its copy of the partition is down;
        - the lease is over;
        - the partition is read no longer.
        """
        if self._leaders.replica(state.where, broker) is None:
            return False
        self._replicas.prefer(state.where, broker, state.leader_epoch, now)
        self._read_ahead.changes[state.where] = None
        return True

    def failed(self, where: TopicPartition) -> bool:
        """A fetch of a partition has failed: its leader is next. True: a follower was asked."""
        self._read_ahead.changes[where] = None
        return self._replicas.forget(where)

    def look_again(self) -> None:
        """The leaders may have changed: look at every partition."""
        self._read_ahead.changes.update(dict.fromkeys(self._read_ahead.partitions))

    def update(self, now: float) -> None:
        """Look at what has changed, or at a part of it (:attr:`is_behind`)."""
        changes = self._read_ahead.changes
        if self._first_end <= now:
            changes.update((where, None) for where, end in self._waiting.items() if end <= now)
            self._first_end = min((end for end in self._waiting.values() if end > now), default=inf)
        changes.update(dict.fromkeys(self._replicas.expire(now)))
        if changes:
            self.lacks_leaders = self.lacks_leaders and self.is_behind
            looked_at = [*islice(changes, _LOOKS_AT_ONCE)]
            for where in looked_at:
                del changes[where]
            for where in looked_at:
                self._look_at(where, now)
        self.is_behind = bool(changes)

    def _look_at(self, where: TopicPartition, now: float) -> None:
        self._waiting.pop(where, None)
        self._doubts.pop(where, None)
        state = self._read_ahead.partitions.get(where)
        if state is None:
            self._replicas.forget(where)
            self._leave(where)
        elif where in self._held or not state.wants_records:
            self._leave(where)
        elif (leader := self._leaders.leader(where)) is None:
            self._leave(where)
            self.lacks_leaders = True
        elif state.not_before > now:
            self._leave(where)
            self._waiting[where] = state.not_before
            self._first_end = min(self._first_end, state.not_before)
        elif state.moved_to(leader.epoch):
            self._leave(where)
            self._doubts[where] = Doubt(state, leader)
        else:
            self._fetch_from(self._replica(where, leader), state)

    def _replica(self, where: TopicPartition, leader: Leader) -> Node:
        """The broker to fetch a partition from."""
        broker = self._replicas.broker(where, leader.epoch)
        if broker is None:
            return leader.node
        node = self._leaders.replica(where, broker)
        if node is None:
            self._replicas.forget(where)
            self.lacks_leaders = True
            return leader.node
        return node

    def _leave(self, where: TopicPartition) -> None:
        source = self._sources.pop(where, None)
        if source is not None:
            self.sessions[source].leave(where)
            if (state := self._read_ahead.partitions.get(where)) is not None:
                state.count_in(None)

    def _fetch_from(self, node: Node, state: PartitionState) -> None:
        where = state.where
        if self._sources.get(where) != node.id:
            self._leave(where)
            self._sources[where] = node.id
        if (session := self.sessions.get(node.id)) is None:
            session = self.sessions[node.id] = FetchSession(node)
        session.node = node
        state.count_in(session)
        session.want(
            FetchPartition(
                where,
                state.fetch_offset,
                state.leader_epoch,
                self._leaders.topic_id(where.topic),
                state.number,
                state.restarts,
            )
        )

    # --- what to do now --------------------------------------------------------------------

    @property
    def doubts(self) -> Mapping[Node, list[Doubt]]:
        """The partitions to validate before they are fetched, by their leaders."""
        found: dict[Node, list[Doubt]] = {}
        for doubt in self._doubts.values():
            found.setdefault(doubt.leader.node, []).append(doubt)
        return found

    @property
    def next_look(self) -> float | None:
        """The time at which a partition changes by itself."""
        moments = (self._first_end if self._waiting else None, self._replicas.next_end)
        return min((moment for moment in moments if moment is not None), default=None)


class _Preference(NamedTuple):
    broker: int
    leader_epoch: int
    """Of the leader that named the broker."""
    until: float


class ReadReplicas:
    """The follower that the leader of each partition has named, if it has (KIP-392).

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
