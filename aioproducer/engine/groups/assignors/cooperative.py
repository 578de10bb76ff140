"""The assignor ``cooperative-sticky``: partitions that stay are never taken away. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from aioproducer.engine.groups.assignors.member import Assignment, GroupMember, PartitionCounts
from aioproducer.engine.groups.assignors.sticky import assign_sticky


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
