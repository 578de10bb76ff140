"""Assignors as plain as they can be, for groups drawn at random.

They say who has to get what: :mod:`tests.unit.groups.test_assignors` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from random import Random
from types import MappingProxyType
from typing import Final

from aioproducer.engine.groups.assignors import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    in_order,
    java_order,
)
from aioproducer.model import TopicPartition


def partitions_of(topics: Iterable[str], counts: PartitionCounts) -> list[TopicPartition]:
    """The partitions of ``topics`` in the order of their names and numbers."""
    return [
        TopicPartition(topic, number)
        for topic in sorted(topics, key=java_order)
        for number in range(counts.get(topic, 0))
    ]


def assign_round_robin(members: Iterable[GroupMember], counts: PartitionCounts) -> Assignment:
    """A member without a subscription to a topic is passed over. Source: ``RoundRobinAssignor``."""
    ordered = in_order(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    turn = 0
    for where in partitions_of({topic for each in ordered for topic in each.topics}, counts):
        while where.topic not in ordered[turn % len(ordered)].topics:
            turn += 1
        assignment[ordered[turn % len(ordered)].member_id].append(where)
        turn += 1
    return assignment


_NO_RACKS: Final[PartitionRacks] = MappingProxyType({})


def assign_ranges(
    members: Iterable[GroupMember], counts: PartitionCounts, racks: PartitionRacks = _NO_RACKS
) -> Assignment:
    """The first members of each topic have one partition more if it can't be divided equally.

    Topics with equally many partitions and the same members are divided alike, so records of one
    key in several topics come to one member. A member in a rack gets partitions with a replica
    there first, as far as these two rules allow (KIP-881). Source: Kafka's ``RangeAssignor``.
    """
    ordered = in_order(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    wanted = sorted({topic for member in ordered for topic in member.topics}, key=java_order)
    topics = [
        _Topic(name, counts[name], [each for each in ordered if name in each.topics], racks)
        for name in wanted
        if counts.get(name)
    ]
    minds_racks = any(topic.minds_racks for topic in topics)
    if minds_racks:
        _assign_near(topics, assignment)
    for topic in topics:
        topic.assign_ranges(assignment, lambda *_: True)
    if minds_racks:
        for partitions in assignment.values():
            partitions.sort(key=lambda where: (java_order(where.topic), where.partition))
    return assignment


class _Topic:
    """A topic, while its partitions are divided among ``members``."""

    def __init__(
        self, name: str, count: int, members: Sequence[GroupMember], racks: PartitionRacks
    ) -> None:
        self.name = name
        self.count = count
        self.members = members
        self._left = dict.fromkeys(TopicPartition(name, number) for number in range(count))
        self._given = dict.fromkeys((each.member_id for each in members), 0)
        self._each, self._extra = divmod(count, len(members))
        self._racks = {where: racks.get(where, frozenset()) for where in self._left}
        of_members = {each.rack for each in members if each.rack}
        everywhere = frozenset().union(*self._racks.values())
        self.minds_racks = bool(of_members & everywhere) and any(
            each != everywhere for each in self._racks.values()
        )
        """True if it matters to a member which of the partitions it has."""

    def is_near(self, member: GroupMember, where: TopicPartition) -> bool:
        """True if a replica is in the member's rack, or the member has none."""
        return not member.rack or member.rack in self._racks[where]

    def room(self, member: GroupMember) -> int:
        """The number of partitions that a member may still get."""
        return max(self._each + (self._extra > 0) - self._given[member.member_id], 0)

    def give(
        self, member: GroupMember, partitions: Sequence[TopicPartition], assignment: Assignment
    ) -> None:
        assignment[member.member_id] += partitions
        self._given[member.member_id] += len(partitions)
        if self._given[member.member_id] > self._each:
            self._extra -= 1
        for where in partitions:
            del self._left[where]

    def assign_ranges(
        self, assignment: Assignment, may_have: Callable[[GroupMember, TopicPartition], bool]
    ) -> None:
        for member in self.members:
            found = [where for where in self._left if may_have(member, where)]
            if found := found[: self.room(member)]:
                self.give(member, found, assignment)


def _assign_near(topics: Iterable[_Topic], assignment: Assignment) -> None:
    """Give members partitions with a replica in their rack."""
    alike: dict[tuple[object, ...], list[_Topic]] = {}
    for topic in topics:
        if any(member.rack for member in topic.members):
            key = (topic.count, *(member.member_id for member in topic.members))
            alike.setdefault(key, []).append(topic)
    for group in alike.values():
        if len(group) > 1:
            _assign_together(group, assignment)
        elif group[0].minds_racks:
            group[0].assign_ranges(assignment, group[0].is_near)


def _assign_together(topics: Sequence[_Topic], assignment: Assignment) -> None:
    """Give a partition of all ``topics`` to one member that is near all of them."""
    for number in range(topics[0].count):
        places: Mapping[_Topic, TopicPartition] = {
            topic: TopicPartition(topic.name, number) for topic in topics
        }
        for member in topics[0].members:
            if all(topic.is_near(member, places[topic]) and topic.room(member) for topic in topics):
                for topic in topics:
                    topic.give(member, [places[topic]], assignment)
                break


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


def cooperative_sticky(members: Sequence[GroupMember], counts: PartitionCounts) -> Assignment:
    """A partition that another member still has is given to nobody in this round.

    Its owner sees that it is not assigned, releases it and joins again: the next round has it free.
    Source: Kafka's ``CooperativeStickyAssignor`` (KIP-429).
    """
    assignment = assign_sticky(members, counts)
    claims = {(where, each.member_id) for each in members for where in each.owned}
    claimed = {where for where, _ in claims}
    return {
        member_id: [
            where for where in partitions if where not in claimed or (where, member_id) in claims
        ]
        for member_id, partitions in assignment.items()
    }


_NAMES = ("a", "b", "member-1", "member-2", "Z", "ä", "\ue000", "\U0001f986", "m-10", "m-9")
"""Java sorts the last ones in another order than their code points have."""


def random_group(random: Random) -> tuple[list[GroupMember], PartitionCounts]:
    """One to ten members, and one to five topics; a topic may have no partition."""
    topics = [f"topic-{number}" for number in range(random.randint(1, 5))]
    counts = {topic: random.choice([0, 1, 2, 3, 7, 20]) for topic in topics}
    same = tuple(topics) if random.random() < 0.5 else None
    members = []
    for name in random.sample(_NAMES, random.randint(1, len(_NAMES))):
        wanted = random.sample(topics, random.randint(1, len(topics)))
        static = f"static-{name}" if random.random() < 0.3 else None
        members.append(GroupMember(f"{name}-{random.randrange(99)}", same or tuple(wanted), static))
    return members, counts


def random_racks(
    random: Random, members: list[GroupMember], counts: PartitionCounts
) -> tuple[list[GroupMember], PartitionRacks]:
    """The members, some of them in racks, and the racks of each partition's replicas."""
    racks = ["a", "b", "c", "d"][: random.randint(1, 4)]
    share, replicas = random.choice([0.0, 0.5, 1.0]), random.randint(0, 3)
    placed = [
        each._replace(
            rack=random.choice([*racks, "elsewhere"]) if random.random() < share else None
        )
        for each in members
    ]
    return placed, {
        TopicPartition(topic, number): frozenset(random.choices(racks, k=replicas))
        for topic, count in counts.items()
        for number in range(count)
    }
