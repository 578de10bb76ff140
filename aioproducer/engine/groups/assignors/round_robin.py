"""The assignor ``roundrobin``: the partitions of all topics, one to each member in turn. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    in_order,
    partitions_of,
)


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
