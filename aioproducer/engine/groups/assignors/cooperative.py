"""The assignor ``cooperative-sticky``: partitions that stay are never taken away. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    Pace,
    PartitionCounts,
    Steps,
    whole,
)
from aioproducer.engine.groups.assignors.sticky import sticky_steps
from aioproducer.model import TopicPartition


def cooperative_sticky(members: Sequence[GroupMember], counts: PartitionCounts) -> Assignment:
    """A partition that another member still has is given to nobody in this round.

    Its owner sees that it is not assigned, releases it and joins again: the next round has it free.
    Source: Kafka's ``CooperativeStickyAssignor`` (KIP-429).
    """
    return whole(cooperative_steps(members, counts))


def cooperative_steps(members: Sequence[GroupMember], counts: PartitionCounts) -> Steps[Assignment]:
    """:func:`cooperative_sticky` in steps."""
    assignment = yield from sticky_steps(members, counts)
    pace = Pace()
    claims: dict[TopicPartition, set[str]] = {}
    for member in members:
        for where in member.owned:
            claims.setdefault(where, set()).add(member.member_id)
            if pace.due():
                yield
    found: Assignment = {member_id: [] for member_id in assignment}
    for member_id, partitions in assignment.items():
        for where in partitions:
            claimed = claims.get(where)
            if claimed is None or member_id in claimed:
                found[member_id].append(where)
            if pace.due():
                yield
    return found
