"""The requests of a group's member to its coordinator: one file for each."""

from aioproducer.engine.groups.requests.consumer_heartbeat import ConsumerHeartbeat, MemberState
from aioproducer.engine.groups.requests.heartbeat import Heartbeat
from aioproducer.engine.groups.requests.join_group import Joined, JoinGroup
from aioproducer.engine.groups.requests.leave_group import LeaveGroup
from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.groups.requests.offset_commit import OffsetCommit
from aioproducer.engine.groups.requests.offset_fetch import FetchedOffsets, GroupOffsetFetch
from aioproducer.engine.groups.requests.sync_group import Synced, SyncGroup

__all__ = [
    "ConsumerHeartbeat",
    "FetchedOffsets",
    "GroupOffsetFetch",
    "Heartbeat",
    "JoinGroup",
    "Joined",
    "LeaveGroup",
    "MemberState",
    "Membership",
    "OffsetCommit",
    "SyncGroup",
    "Synced",
]
