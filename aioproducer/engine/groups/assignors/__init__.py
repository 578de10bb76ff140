"""The assignors of the classic group protocol: the group's leader divides the partitions.

Each is a pure function of the members and the numbers of partitions, so any member, whichever
library it uses, can be the leader. The leader's event loop runs it in steps.
"""

from aioproducer.engine.groups.assignors.cooperative import cooperative_steps, cooperative_sticky
from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    Steps,
    TopicLayout,
)
from aioproducer.engine.groups.assignors.range_ import assign_ranges, range_steps
from aioproducer.engine.groups.assignors.round_robin import assign_round_robin, round_robin_steps
from aioproducer.engine.groups.assignors.sticky import assign_sticky, sticky_steps

__all__ = [
    "Assignment",
    "GroupMember",
    "PartitionCounts",
    "PartitionRacks",
    "Steps",
    "TopicLayout",
    "assign_ranges",
    "assign_round_robin",
    "assign_sticky",
    "cooperative_steps",
    "cooperative_sticky",
    "range_steps",
    "round_robin_steps",
    "sticky_steps",
]
