"""The assignor ``range``: each topic by itself, in ranges of neighbouring partitions. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

from aioproducer.engine.groups.assignors.member import (
    STEP,
    Assignment,
    GroupMember,
    Pace,
    PartitionCounts,
    PartitionRacks,
    Steps,
    in_order,
    java_order,
    subscribers,
    whole,
)
from aioproducer.model import TopicPartition

_NO_RACKS: Final[PartitionRacks] = MappingProxyType({})


def assign_ranges(
    members: Iterable[GroupMember], counts: PartitionCounts, racks: PartitionRacks = _NO_RACKS
) -> Assignment:
    """The first members of each topic have one partition more if it can't be divided equally.

    Topics with equally many partitions and the same members are divided alike, so records of one
    key in several topics come to one member. A member in a rack gets partitions with a replica
    there first, as far as these two rules allow (KIP-881). Source: Kafka's ``RangeAssignor``.
    """
    return whole(range_steps(members, counts, racks))


def range_steps(
    members: Iterable[GroupMember], counts: PartitionCounts, racks: PartitionRacks = _NO_RACKS
) -> Steps[Assignment]:
    """:func:`assign_ranges` in steps."""
    ordered, pace = in_order(members), Pace()
    assignment: Assignment = {member.member_id: [] for member in ordered}
    takers = yield from subscribers(ordered, pace)
    topics = []
    for name in sorted(takers, key=java_order):
        if counts.get(name):
            topics.append(_Topic(name, counts[name], takers[name], racks))
            if pace.due(5 + counts[name]):
                yield
    minds_racks = any(topic.minds_racks for topic in topics)
    if minds_racks:
        yield from _assign_near(topics, assignment, pace)
    for topic in topics:
        yield from topic.assign_ranges(assignment, pace, near=False)
    if minds_racks:
        for partitions in assignment.values():
            partitions.sort(key=lambda where: (java_order(where.topic), where.partition))
            yield
    return assignment


class _Topic:
    """A topic, while its partitions are divided among ``members``."""

    def __init__(
        self, name: str, count: int, members: Sequence[GroupMember], racks: PartitionRacks
    ) -> None:
        self.name = name
        self.count = count
        self.members = members
        self._given = dict.fromkeys((each.member_id for each in members), 0)
        self._each, self._extra = divmod(count, len(members))
        self.racks: Sequence[frozenset[str]] = ()
        """Of each partition's replicas; empty: they don't matter."""
        self._taken = bytearray(count)
        """1 for each partition that a member has got."""
        self._numbers: dict[str | None, Iterator[int]] = {None: iter(range(count))}
        """The partitions near each rack, in their order. One that was left behind is taken."""
        self.minds_racks = False
        """True if it matters to a member which of the partitions it has."""
        of_members = {each.rack for each in members if each.rack} if racks else None
        if of_members:
            self.racks = [racks.get(TopicPartition(name, at), frozenset()) for at in range(count)]
            everywhere = frozenset().union(*self.racks)
            self.minds_racks = bool(of_members & everywhere) and any(
                each != everywhere for each in self.racks
            )

    def room(self, member: GroupMember) -> int:
        """The number of partitions that a member may still get. It never grows."""
        return max(self._each + (self._extra > 0) - self._given[member.member_id], 0)

    def give(self, member: GroupMember, numbers: Sequence[int], assignment: Assignment) -> None:
        assignment[member.member_id] += [TopicPartition(self.name, each) for each in numbers]
        self._given[member.member_id] += len(numbers)
        if self._given[member.member_id] > self._each:
            self._extra -= 1
        for each in numbers:
            self._taken[each] = 1

    def assign_ranges(self, assignment: Assignment, pace: Pace, *, near: bool) -> Steps[None]:
        """Give each member the first partitions that are left; ``near``: of those in its rack."""
        if near:
            self._look_for_near()
        for member in self.members:
            rack = (member.rack or None) if near else None
            while numbers := self._first(rack, min(self.room(member), STEP)):
                self.give(member, numbers, assignment)
                if pace.due(len(numbers)):
                    yield
            if pace.due():
                yield

    def _look_for_near(self) -> None:
        near: dict[str, list[int]] = {each.rack: [] for each in self.members if each.rack}
        for number, racks in enumerate(self.racks):
            for rack in racks & near.keys():
                near[rack].append(number)
        self._numbers.update({rack: iter(numbers) for rack, numbers in near.items()})

    def _first(self, rack: str | None, most: int) -> list[int]:
        """The first partitions near ``rack`` that nobody has, and no longer known as such."""
        found: list[int] = []
        while len(found) < most and (number := next(self._numbers[rack], None)) is not None:
            if not self._taken[number]:
                found.append(number)
        return found


def _assign_near(topics: Iterable[_Topic], assignment: Assignment, pace: Pace) -> Steps[None]:
    """Give members partitions with a replica in their rack."""
    alike: dict[tuple[object, ...], list[_Topic]] = {}
    for topic in topics:
        if any(member.rack for member in topic.members):
            key = (topic.count, *(member.member_id for member in topic.members))
            alike.setdefault(key, []).append(topic)
            if pace.due(len(topic.members)):
                yield
    for group in alike.values():
        if len(group) > 1:
            yield from _assign_together(group, assignment, pace)
        elif group[0].minds_racks:
            yield from group[0].assign_ranges(assignment, pace, near=True)


def _assign_together(topics: Sequence[_Topic], assignment: Assignment, pace: Pace) -> Steps[None]:
    """Give a partition of all ``topics`` to the first member that is near all of them."""
    lines: dict[str | None, deque[tuple[int, GroupMember]]] = {}
    for place, member in enumerate(topics[0].members):
        lines.setdefault(member.rack or None, deque()).append((place, member))
    for number in range(topics[0].count):
        common = frozenset.intersection(*(topic.racks[number] for topic in topics))
        first = []
        for rack in (None, *common):
            line = lines.get(rack)
            while line and not all(topic.room(line[0][1]) for topic in topics):
                line.popleft()
            if line:
                first.append(line[0])
        if first:
            _, member = min(first, key=lambda each: each[0])
            for topic in topics:
                topic.give(member, (number,), assignment)
        if pace.due(len(topics)):
            yield
