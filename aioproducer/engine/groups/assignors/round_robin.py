"""The assignor ``roundrobin``: the partitions of all topics, one to each member in turn. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

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


def assign_round_robin(members: Iterable[GroupMember], counts: PartitionCounts) -> Assignment:
    """A member without a subscription to a topic is passed over. Source: ``RoundRobinAssignor``."""
    return whole(round_robin_steps(members, counts))


def round_robin_steps(members: Iterable[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """:func:`assign_round_robin` in steps."""
    ordered, pace = in_order(members), Pace()
    assignment: Assignment = {member.member_id: [] for member in ordered}
    places = {member.member_id: place for place, member in enumerate(ordered)}
    takers = yield from subscribers(ordered, pace)
    turn = 0
    for topic in sorted(takers, key=java_order):
        of_topic = [places[member.member_id] for member in takers[topic]]
        for number in range(counts.get(topic, 0)):
            place = of_topic[bisect_left(of_topic, turn) % len(of_topic)]
            assignment[ordered[place].member_id].append(TopicPartition(topic, number))
            turn = (place + 1) % len(ordered)
            if pace.due():
                yield
    return assignment
