"""The assignor ``range``: each topic by itself, in ranges of neighbouring partitions. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    in_order,
    java_order,
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
