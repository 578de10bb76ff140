"""The assignor ``range``: each topic by itself, in ranges of neighbouring partitions. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    in_order,
    java_order,
)
from aioproducer.model import TopicPartition


def assign_ranges(members: Iterable[GroupMember], counts: PartitionCounts) -> Assignment:
    """The first members of each topic have one partition more if it can't be divided equally.

    Topics with equally many partitions and the same members are divided alike, so records of one
    key in several topics come to one member. Racks are not considered. Source: Kafka's
    ``RangeAssignor``.
    """
    ordered = in_order(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    for topic in sorted({topic for member in ordered for topic in member.topics}, key=java_order):
        subscribed = [member for member in ordered if topic in member.topics]
        each, extra = divmod(counts.get(topic, 0), len(subscribed))
        first = 0
        for place, member in enumerate(subscribed):
            end = first + each + (place < extra)
            assignment[member.member_id] += [
                TopicPartition(topic, number) for number in range(first, end)
            ]
            first = end
    return assignment
