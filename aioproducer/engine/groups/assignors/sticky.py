"""The assignor ``sticky``: even, and with as few moves as that allows. No I/O.

Source: the promises of Kafka's ``AbstractStickyAssignor`` (KIP-54, KIP-341, KIP-480). The way to
them is another one, so the partitions of a member may be others than a Java leader's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeAlias

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    Pace,
    PartitionCounts,
    Steps,
    in_order,
    java_order,
    subscribers,
    whole,
)
from aioproducer.model import TopicPartition

_Takers: TypeAlias = int
"""The number of a group of members that have subscribed to a topic. Many topics have the same."""


def assign_sticky(members: Iterable[GroupMember], counts: PartitionCounts) -> Assignment:
    """No member has two partitions more than another one that could have one of them.

    A member keeps what it has as far as that allows.
    """
    return whole(sticky_steps(members, counts))


def sticky_steps(members: Iterable[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """:func:`assign_sticky` in steps."""
    ordered, pace = in_order(members), Pace()
    owned = yield from _owners(ordered, counts, pace)
    of_topics = yield from subscribers(ordered, pace)
    shares = _Shares(ordered, of_topics)
    free: dict[str, list[TopicPartition]] = {}
    for topic in sorted(of_topics, key=java_order):
        for number in range(counts.get(topic, 0)):
            where = TopicPartition(topic, number)
            if where in owned:
                shares.give(where, owned[where])
            else:
                free.setdefault(topic, []).append(where)
            if pace.due():
                yield
    for topic in sorted(free, key=shares.takers):
        for where in free[topic]:
            shares.give(where, shares.poorest(where.topic))
            if pace.due():
                yield
    yield from shares.even_out(pace)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for topic in sorted(of_topics):
        for number in range(counts.get(topic, 0)):
            where = TopicPartition(topic, number)
            assignment[shares.owners[where]].append(where)
            if pace.due():
                yield
    return assignment


def _owners(
    members: Iterable[GroupMember], counts: PartitionCounts, pace: Pace
) -> Steps[Mapping[TopicPartition, str]]:
    """The member that has each partition now, if it may keep it.

    Of two members that say so the later generation is right, and none of equal ones (KIP-341).
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        topics = frozenset(member.topics)
        for where in member.owned:
            if pace.due():
                yield
            if where.topic not in topics or not 0 <= where[1] < counts.get(where.topic, 0):
                continue
            generation, _ = claims.get(where, (None, None))
            if generation is None or member.generation > generation:
                claims[where] = member.generation, member.member_id
            elif member.generation == generation:
                claims[where] = member.generation, None
    return {where: owner for where, (_, owner) in claims.items() if owner is not None}


class _Shares:
    """The partitions of each member, while they are divided."""

    def __init__(
        self, members: Sequence[GroupMember], of_topics: Mapping[str, Sequence[GroupMember]]
    ) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self._held: dict[str, dict[TopicPartition, None]] = {each.member_id: {} for each in members}
        self._places = {each.member_id: place for place, each in enumerate(members)}
        groups: dict[tuple[str, ...], _Takers] = {}
        self._takers: dict[str, _Takers] = {}
        for topic, subscribed in of_topics.items():
            names = tuple([each.member_id for each in subscribed])
            self._takers[topic] = groups.setdefault(names, len(groups))
        self._of_member: dict[str, list[_Takers]] = {each.member_id: [] for each in members}
        """The groups of takers that a member is one of."""
        self._loads: list[list[tuple[int, int, str]]] = []
        """A heap of the members of each group, by their numbers of partitions. An entry with a
        smaller number than the member has is out of date, and so is one with a larger number."""
        self._sizes = [*map(len, groups)]
        for names, takers in groups.items():
            for each in names:
                self._of_member[each].append(takers)
            self._loads.append([(0, self._places[each], each) for each in names])
            heapify(self._loads[takers])
        self._givable: dict[str, dict[_Takers, list[tuple[str, int]]]] = {}
        """The partitions of members that have given some: by takers a heap of topics, and numbers
        below zero, so that the last partition of the first topic goes first."""

    def give(self, where: TopicPartition, member_id: str) -> None:
        self.owners[where] = member_id
        self._held[member_id][where] = None
        if (givable := self._givable.get(member_id)) is not None:
            _add(givable, self._takers[where.topic], where)

    def takers(self, topic: str) -> tuple[int, str]:
        """Topics that few members can have come first."""
        return self._sizes[self._takers[topic]], topic

    def poorest(self, topic: str) -> str:
        """The member of the topic with the fewest partitions; the first of equal ones."""
        return self._poorest(self._takers[topic])[2]

    def _poorest(self, takers: _Takers) -> tuple[int, int, str]:
        heap = self._loads[takers]
        while True:
            load, place, member_id = first = heap[0]
            now = len(self._held[member_id])
            if load == now:
                return first
            if load < now:
                heapreplace(heap, (now, place, member_id))
            else:  # a newer entry has the smaller number
                heappop(heap)

    def even_out(self, pace: Pace) -> Steps[None]:
        """Move partitions from members that have two more than another one that can have them.

        The richest member gives first, so nobody gets what it would have to give on. Each move
        makes the sum of the squares of the loads smaller, so it comes to an end.
        """
        moved = True
        while moved:
            moved = False
            givers = [(-len(held), self._places[each], each) for each, held in self._held.items()]
            heapify(givers)
            while givers:
                load, place, giver = heappop(givers)
                if -load == len(self._held[giver]) and self._gives_one(giver):
                    moved = True
                    heappush(givers, (load + 1, place, giver))
                if pace.due(1 + len(self._of_member[giver])):
                    yield

    def _gives_one(self, giver: str) -> bool:
        """Move a partition of ``giver`` to the poorest member that can have it, if there is one."""
        choices = [
            (*self._poorest(takers)[:2], heap[0][0], takers)
            for takers, heap in self._givable_of(giver).items()
        ]
        if not choices:
            return False
        load, _, _, takers = min(choices)
        if len(self._held[giver]) <= load + 1:
            return False
        taker = self._poorest(takers)[2]
        where = _pop(self._givable[giver], takers)
        del self._held[giver][where]
        for each in self._of_member[giver]:
            heappush(self._loads[each], (len(self._held[giver]), self._places[giver], giver))
        self.give(where, taker)
        return True

    def _givable_of(self, giver: str) -> dict[_Takers, list[tuple[str, int]]]:
        found = self._givable.get(giver)
        if found is None:
            found = self._givable[giver] = {}
            for where in self._held[giver]:
                found.setdefault(self._takers[where.topic], []).append((where[0], -where[1]))
            for heap in found.values():
                heapify(heap)
        return found


def _add(
    givable: dict[_Takers, list[tuple[str, int]]], takers: _Takers, where: TopicPartition
) -> None:
    heappush(givable.setdefault(takers, []), (where.topic, -where.partition))


def _pop(givable: dict[_Takers, list[tuple[str, int]]], takers: _Takers) -> TopicPartition:
    topic, number = heappop(givable[takers])
    if not givable[takers]:
        del givable[takers]
    return TopicPartition(topic, -number)
