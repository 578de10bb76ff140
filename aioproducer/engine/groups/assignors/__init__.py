"""The assignors of the classic group protocol: the group's leader divides the partitions.

Each is a pure function of the members and the numbers of partitions, so any member, whichever
library it uses, can be the leader.
"""

from aioproducer.engine.groups.assignors.cooperative import cooperative_sticky
from aioproducer.engine.groups.assignors.member import (
    Assignment,
    GroupMember,
    PartitionCounts,
    PartitionRacks,
    TopicLayout,
)
from aioproducer.engine.groups.assignors.range_ import assign_ranges
from aioproducer.engine.groups.assignors.round_robin import assign_round_robin
from aioproducer.engine.groups.assignors.sticky import assign_sticky

__all__ = [
    "Assignment",
    "GroupMember",
    "PartitionCounts",
    "PartitionRacks",
    "TopicLayout",
    "assign_ranges",
    "assign_round_robin",
    "assign_sticky",
    "cooperative_sticky",
]
