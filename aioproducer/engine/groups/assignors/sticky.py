"""The assignor ``sticky``: even, and with as few moves as that allows. No I/O.

Source: the promises of Kafka's ``AbstractStickyAssignor`` (KIP-54, KIP-341, KIP-480). The way to
them is another one, so the partitions of a member may be others than a Java leader's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    in_order,
    partitions_of,
)
from aioproducer.model import TopicPartition


def assign_sticky(members: Iterable[GroupMember], counts: PartitionCounts) -> Assignment:
    """No member has two partitions more than another one that could have one of them.

    A member keeps what it has as far as that allows.
    """
    ordered = in_order(members)
    owned = owners(ordered, counts)
    everything = partitions_of({topic for each in ordered for topic in each.topics}, counts)
    shares = _Shares(ordered)
    for where in everything:
        if where in owned:
            shares.give(where, owned[where])
    for where in sorted((each for each in everything if each not in owned), key=shares.takers):
        shares.give(where, shares.least_loaded(where))
    shares.even_out()
    return {member.member_id: sorted(shares.held[member.member_id]) for member in ordered}


def owners(members: Iterable[GroupMember], counts: PartitionCounts) -> Mapping[TopicPartition, str]:
    """The member that has each partition now, if it may keep it.

    Of two members that say so the later generation is right, and none of equal ones (KIP-341).
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for where in member.owned:
            if where.topic not in member.topics or not 0 <= where[1] < counts.get(where.topic, 0):
                continue
            generation, _ = claims.get(where, (None, None))
            if generation is None or member.generation > generation:
                claims[where] = member.generation, member.member_id
            elif member.generation == generation:
                claims[where] = member.generation, None
    return {where: owner for where, (_, owner) in claims.items() if owner is not None}


class _Shares:
    """The partitions of each member, while they are divided."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        self._members = list(members)
        self.held: dict[str, set[TopicPartition]] = {each.member_id: set() for each in members}
        self._takers: dict[str, list[str]] = {}
        """The members that have subscribed to each topic."""
        for member in self._members:
            for topic in dict.fromkeys(member.topics):
                self._takers.setdefault(topic, []).append(member.member_id)
        self._heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        self._places = {each.member_id: place for place, each in enumerate(self._members)}

    def give(self, where: TopicPartition, member_id: str) -> None:
        self.held[member_id].add(where)

    def takers(self, where: TopicPartition) -> tuple[int, TopicPartition]:
        """Partitions that few members can have come first."""
        return len(self._takers[where.topic]), where

    def least_loaded(self, where: TopicPartition) -> str:
        """The member of the topic with the fewest partitions; the first of equal ones.

        Loads only grow while this is asked for, so an entry of a heap is true or too small.
        """
        takers = tuple(self._takers[where.topic])
        heap = self._heaps.get(takers)
        if heap is None:
            heap = [(len(self.held[each]), self._places[each], each) for each in takers]
            heapify(heap)
            self._heaps[takers] = heap
        while True:
            load, place, member_id = heappop(heap)
            now = len(self.held[member_id])
            if load == now:
                heappush(heap, (now + 1, place, member_id))
                return member_id
            heappush(heap, (now, place, member_id))

    def even_out(self) -> None:
        """Move partitions from members that have two more than another one that can have them.

        The richest member gives first, so nobody gets what it would have to give on. Each move
        makes the sum of the squares of the loads smaller, so it comes to an end.
        """
        moved = True
        while moved:
            moved = False
            givers = [(-len(held), self._places[each], each) for each, held in self.held.items()]
            heapify(givers)
            while givers:
                load, place, giver = heappop(givers)
                if -load == len(self.held[giver]) and self._gives_one(giver):
                    moved = True
                    heappush(givers, (load + 1, place, giver))

    def _gives_one(self, giver: str) -> bool:
        """Move a partition of ``giver`` to the poorest member that can have it, if there is one."""
        last = {where.topic: where for where in sorted(self.held[giver])}
        choices = [
            (len(self.held[taker]), self._places[taker], topic, taker)
            for topic in last
            for taker in self._takers[topic]
        ]
        if not choices:
            return False
        load, _, topic, taker = min(choices)
        if len(self.held[giver]) <= load + 1:
            return False
        self.held[giver].remove(last[topic])
        self.held[taker].add(last[topic])
        return True
