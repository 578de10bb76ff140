"""A group of the classic protocol: its states, its members, and its choice of an assignor.

Sources: Kafka's ``ClassicGroup``, ``ClassicGroupMember`` and ``ClassicGroupState``. A
:class:`Reply` is the answer to a request that may wait for other members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.messages import Fields


class Reply:
    """The answer to a request that may wait for other members."""

    def __init__(self, fields: Fields | None = None) -> None:
        self.fields = fields
        """The response; None: the request waits."""


NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""
CLIENT_HOST: Final = "/client.simulated"


class ClassicGroupState(Enum):
    """The states by Kafka's names. The model has no dead groups: they are forgotten at once."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """The members join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined, and the leader divides the partitions."""
    STABLE = "Stable"


PREVIOUS_STATES: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        (
            ClassicGroupState.STABLE,
            ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupState.EMPTY,
        )
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset((ClassicGroupState.PREPARING_REBALANCE,)),
    ClassicGroupState.STABLE: frozenset((ClassicGroupState.COMPLETING_REBALANCE,)),
}
"""The states that may come before each one."""


@dataclass(eq=False)
class ClassicMember:
    """A member. Times are seconds."""

    member_id: str
    instance_id: str | None
    """The id of a static member (KIP-345)."""
    client_id: str
    rebalance_timeout: float
    session_timeout: float
    protocol_type: str
    protocols: Mapping[str, bytes]
    """The subscription for each assignor, the best one first."""
    assignment: bytes = b""
    new: bool = False
    """True before its first generation."""
    joins: Reply | None = None
    """The JoinGroup that waits."""
    syncs: Reply | None = None
    """The SyncGroup that waits."""

    @property
    def waits(self) -> bool:
        """True if its session can't end. Source: ``hasSatisfiedHeartbeat``."""
        return not self.new and (self.joins is not None or self.syncs is not None)

    def answer_join(self, fields: Fields) -> None:
        """Answer the JoinGroup that waits, if one does."""
        if self.joins is not None:
            self.joins.fields = fields
            self.joins = None

    def answer_sync(self, fields: Fields) -> bool:
        """Answer the SyncGroup that waits; False: none does."""
        if self.syncs is None:
            return False
        self.syncs.fields = fields
        self.syncs = None
        return True

    def described(self, protocol: str | None) -> Fields:
        """The row of DescribeGroups; ``protocol``: the one whose subscription is shown."""
        return {
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": CLIENT_HOST,
            "member_metadata": b"" if protocol is None else self.protocols[protocol],
            "member_assignment": self.assignment,
        }


@dataclass(eq=False)
class ClassicGroup:
    """A group, as its coordinator has it in memory."""

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    previous_state: ClassicGroupState | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    """The assignor that all members know."""
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The ids of static members by their instance ids."""
    pending_joins: set[str] = field(default_factory=set)
    """Ids that members have got and not joined with (KIP-394)."""
    pending_syncs: set[str] = field(default_factory=set)
    """Members of the present generation that have not asked for their assignment."""
    new_member_added: bool = False
    """True if a member has joined during the delay of the first rebalance."""

    # --- what is known ---------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """True if it has no members and no rebalance."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def rebalance_timeout(self) -> float:
        """The time that the slowest member has to join again, in seconds."""
        return max((each.rebalance_timeout for each in self.members.values()), default=0.0)

    @property
    def all_joined(self) -> bool:
        """True if every member waits for the next generation."""
        joined = all(each.joins is not None for each in self.members.values())
        return joined and not self.pending_joins

    def refuses_protocols(self, protocol_type: str, protocols: Set[str]) -> bool:
        """True if a member with these assignors does not fit. Source: ``supportsProtocols``."""
        if self.empty:
            return not protocol_type or not protocols
        if not self.members:
            return self.protocol_type != protocol_type
        return self.protocol_type != protocol_type or not self._common_protocols() & protocols

    def refuses_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why a request is not one of a member's. Source: ``validateMember``."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def refuses_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """Why offsets are not taken. Source: ``validateOffsetCommit``."""
        if generation < 0 and self.empty:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            if code := self.refuses_member(member_id, instance_id):
                return code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional and not self.empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is ClassicGroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def shown_members(self) -> list[Fields]:
        """The members with their subscriptions, as the leader gets them."""
        assert self.protocol is not None
        return [
            {
                "member_id": each.member_id,
                "group_instance_id": each.instance_id,
                "metadata": each.protocols[self.protocol],
            }
            for each in self.members.values()
        ]

    # --- members ---------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        """Take a new member."""
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was given out."""
        removed = self.members.pop(member_id, None)
        if removed is not None and removed.instance_id is not None:
            del self.static_members[removed.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """Let a static member continue with another id; its old self is fenced."""
        removed = self.members.pop(old_id)
        assert removed.instance_id is not None
        removed.answer_join(
            {
                "error_code": ErrorCode.FENCED_INSTANCE_ID,
                "member_id": old_id,
                "protocol_name": None,
            }
        )
        removed.answer_sync({"error_code": ErrorCode.FENCED_INSTANCE_ID})
        member = replace(removed, member_id=new_id, new=False)
        self.members[new_id] = member
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[removed.instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Let a member lead that has joined; False: none has.

        Source: ``maybeElectNewJoinedLeader``.
        """
        if self.leader is None:
            return False
        if self.members[self.leader].joins is None:
            joined = [each.member_id for each in self.members.values() if each.joins is not None]
            if not joined:
                return False
            self.leader = joined[0]
        return True

    # --- states ----------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance may begin now."""
        return self.state in PREVIOUS_STATES[ClassicGroupState.PREPARING_REBALANCE]

    def transit(self, state: ClassicGroupState) -> None:
        """Go on to ``state``."""
        if self.state not in PREVIOUS_STATES[state]:
            raise AssertionError(f"{self.group_id} can't go from {self.state} to {state}")
        self.previous_state = self.state
        self.state = state

    def begin_generation(self) -> None:
        """Begin the next generation with the present members. Source: ``initNextGeneration``."""
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.transit(ClassicGroupState.COMPLETING_REBALANCE)
        else:
            self.protocol = None
            self.transit(ClassicGroupState.EMPTY)

    def select_protocol(self) -> str:
        """The assignor with the most votes; each member votes for the first that all know."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name in each.protocols if name in common)
            for each in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _common_protocols(self) -> Set[str]:
        return set.intersection(*(set(each.protocols) for each in self.members.values()))

    # --- another coordinator ---------------------------------------------------------------

    def unload(self) -> None:
        """Another broker coordinates the group. Source: ``onUnloaded``."""
        self.answer_all(ErrorCode.NOT_COORDINATOR)

    def answer_all(self, code: ErrorCode) -> None:
        """Answer all requests that wait with an error."""
        for member in self.members.values():
            member.answer_join(
                {"error_code": code, "member_id": member.member_id, "protocol_name": None}
            )
            member.answer_sync({"error_code": code})

    def stored(self) -> ClassicGroup:
        """The group as a record of it is read back. Source: ``replay`` of ``GroupMetadataValue``.

        Each member has the subscription of the chosen assignor only.
        """
        members = {
            each.member_id: replace(
                each,
                protocols={self.protocol: each.protocols[self.protocol]},
                new=False,
                joins=None,
                syncs=None,
            )
            for each in self.members.values()
            if self.protocol is not None
        }
        return ClassicGroup(
            self.group_id,
            ClassicGroupState.STABLE if members else ClassicGroupState.EMPTY,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader if members else None,
            members=members,
            static_members=dict(self.static_members) if members else {},
        )
