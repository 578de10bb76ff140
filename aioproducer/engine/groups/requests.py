"""The requests of a group's member to its coordinator. No I/O.

JoinGroup takes part in the next generation of a group, SyncGroup hands in the assignment (as the
leader) and gets one's own part, Heartbeat says that the member lives, LeaveGroup frees its
partitions at once. ConsumerGroupHeartbeat is the one request of a member of KIP-848. ListGroups
says why a group refuses a member.

Source: Kafka's ``ConsumerProtocol``; of the reactions to errors ``AbstractCoordinator``,
``ConsumerCoordinator`` and ``AbstractHeartbeatRequestManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.groups.assignors import (
    NO_GENERATION,
    Assignment,
    GroupMember,
    Pace,
    Steps,
)
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema, data_schema
from aioproducer.engine.transactions.requests import (
    by_topic,
    fetched_offsets,
    offset_fetch_message,
)
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.errors.broker import RETRIABLE, ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition


class Reaction(Enum):
    """The reaction of a member."""

    DONE = auto()
    """There is no error."""
    RETRY = auto()
    """Ask again, after a backoff."""
    FIND_COORDINATOR = auto()
    """Look for the coordinator, and ask again."""
    REBALANCE = auto()
    """Take part in the rebalance that is under way."""
    JOIN_AGAIN = auto()
    """The group continues without the member: rejoin with the same id."""
    JOIN_AS_NEW = auto()
    """The group does not know the member's id: join it as another one."""
    FAIL = auto()
    """No other attempt can succeed."""


LOST: Final = frozenset({Reaction.JOIN_AGAIN, Reaction.JOIN_AS_NEW})
"""The member's partitions may have other owners already."""

_REACTIONS: Final[Mapping[int, Reaction]] = {
    ErrorCode.NONE: Reaction.DONE,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REBALANCE,
    ErrorCode.ILLEGAL_GENERATION: Reaction.JOIN_AGAIN,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.JOIN_AGAIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.JOIN_AS_NEW,
    ErrorCode.STALE_MEMBER_EPOCH: Reaction.RETRY,
    ErrorCode.UNRELEASED_INSTANCE_ID: Reaction.RETRY,  # until the session of its last holder ends
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.FAIL,
    # Both pass when somebody creates the topic.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.FAIL,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.FAIL,
}
"""The reactions to the errors of a member's requests, those of commits among them.

A commit is repeated until its timeout, in the new generation if the group rebalances. A partition
whose error is FAIL is not committed, and the others are. One of :data:`LOST` ends the membership,
except if a join is under way, in whose generation the commit is repeated.
"""

_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NEW_PARTITION_GRACE: Final = 5.0
"""Seconds for which commits of a partition that the coordinator does not know, though its leader
serves it, are repeated: the coordinator has to learn of it."""


def reaction_to(code: int, *, is_served: bool = False) -> Reaction:
    """The reaction to the error ``code``.

    ``is_served``: the error of a partition that its leader serves, within
    :data:`NEW_PARTITION_GRACE`.
    """
    if is_served and code in _UNKNOWN:
        return Reaction.RETRY
    if (known := _REACTIONS.get(code)) is not None:
        return known
    return Reaction.RETRY if code in RETRIABLE else Reaction.FAIL


def partitions_may_have_moved(code: int) -> bool:
    """True if a group that refuses offsets with ``code`` may have given the partitions away."""
    # a member repeats its own commit with the new epoch; a transaction does not
    stale = code == ErrorCode.STALE_MEMBER_EPOCH
    return stale or reaction_to(code) in (Reaction.REBALANCE, *LOST)


class Membership(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str = ""
    """Given by the coordinator; empty before."""
    generation: int = NO_GENERATION
    """Grows with each rebalance; -1: the member is in none. With epochs it is the member's."""
    instance_id: str | None = None
    """The id of a static member (KIP-345)."""
    has_epochs: bool = False
    """True: by the protocol of KIP-848."""

    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        return {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "generation_id": self.generation,
            "group_instance_id": self.instance_id,
        }


# --- the data that members exchange through the coordinator -------------------------------------

PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION: Final = "consumer_protocol_subscription"
_ASSIGNMENT: Final = "consumer_protocol_assignment"
_NEWEST: Final = 3
_WRITTEN: Final = 1
"""The version of assignments: it has nothing that a later one would add."""
_VERSION_BYTES: Final = 2
_BYTES_OF_PARTITION: Final = 4


class Subscribed(NamedTuple):
    """A member with its subscription, as it has come."""

    member_id: str
    instance_id: str | None
    data: bytes


def subscription_bytes(
    topics: Iterable[str], owned: Iterable[TopicPartition], generation: int, rack: str | None
) -> bytes:
    """The subscription of a member, with what it had in ``generation`` (KIP-429, KIP-792)."""
    schema = data_schema(_SUBSCRIPTION)
    subscription = schema.ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        owned_partitions=tuple(
            schema.TopicPartition(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(owned).items()
        ),
        generation_id=generation,
        rack_id=rack,
    )
    return _NEWEST.to_bytes(_VERSION_BYTES, "big") + schema.encode(subscription, _NEWEST)


def subscription_of(member_id: str, instance_id: str | None, data: bytes) -> GroupMember:
    """The member with its subscription. One that can't be understood gets no partition."""
    try:
        version = _version(data)
        schema = data_schema(_SUBSCRIPTION)
        said, _ = schema.decode(data, _VERSION_BYTES, version)
        owned = _partitions((each.topic, each.partitions) for each in said.owned_partitions or ())
        topics = tuple(dict.fromkeys(said.topics))
        return GroupMember(
            member_id, topics, instance_id, tuple(owned), said.generation_id, said.rack_id
        )
    except Exception:
        return GroupMember(member_id, (), instance_id)


def subscriptions_of(members: Iterable[Subscribed]) -> Steps[list[GroupMember]]:
    """The members with their subscriptions (:func:`subscription_of`)."""
    found, pace = [], Pace()
    for member in members:
        found.append(subscription_of(*member))
        if pace.due(1 + len(member.data) // _BYTES_OF_PARTITION):
            yield
    return found


def assignments_bytes(assignment: Assignment) -> Steps[Mapping[str, bytes]]:
    """The partitions of each member (:func:`assignment_bytes`)."""
    found, pace = {}, Pace()
    for member_id, partitions in assignment.items():
        found[member_id] = assignment_bytes(partitions)
        if pace.due(1 + len(partitions)):
            yield
    return found


def assignment_bytes(partitions: Iterable[TopicPartition]) -> bytes:
    """The partitions of a member."""
    schema = data_schema(_ASSIGNMENT)
    assignment = schema.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            schema.TopicPartition(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    )
    return _WRITTEN.to_bytes(_VERSION_BYTES, "big") + schema.encode(assignment, _WRITTEN)


def assigned_in(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment; an empty one has none.

    Raises :class:`ProtocolError` if it can't be understood.
    """
    if not data:
        return []
    try:
        said, _ = data_schema(_ASSIGNMENT).decode(data, _VERSION_BYTES, _version(data))
        return [*_partitions((each.topic, each.partitions) for each in said.assigned_partitions)]
    except Exception as error:
        raise ProtocolError(f"the assignment of {len(data)} bytes can't be understood") from error


def _partitions(
    topics: Iterable[tuple[str, Iterable[int]]],
) -> Iterator[TopicPartition]:
    for topic, numbers in topics:
        for number in numbers:
            if number >= 0:
                yield TopicPartition(topic, number)


def _version(data: bytes) -> int:
    """The version to read: later ones begin as the newest that is known."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0 or len(data) < _VERSION_BYTES:
        raise ProtocolError(f"version {version} of what a member says")
    return min(version, _NEWEST)


# --- a member of the classic protocol -----------------------------------------------------------

_FIRST_WITH_INSTANCES: Final = 5


class Joined(NamedTuple):
    """The coordinator's answer, when all members have joined."""

    error_code: int
    member_id: str
    generation: int
    protocol: str
    """The assignor that all members know."""
    leader: str
    """The id of the member that divides the partitions."""
    members: tuple[Subscribed, ...]
    """All members, for the leader, which reads their subscriptions in steps."""
    skip_assignment: bool = False
    """A static leader that has come back: the assignment stays."""


@dataclass(frozen=True, slots=True)
class JoinGroup(SchemaRequest):
    """Join a group, or join it again. The answer takes as long as the slowest member needs."""

    member: Membership
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    """The subscription for each assignor, the best one first."""
    reason: str = ""
    """For the coordinator's log (KIP-800)."""
    api = Api.JOIN_GROUP

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        if self.member.instance_id is not None and version < _FIRST_WITH_INSTANCES:
            raise UnsupportedVersionError(
                "the broker is too old for static members (KIP-345, Kafka 2.3): leave out "
                "group_instance_id"
            )
        return schema.JoinGroupRequest(
            group_id=self.member.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member.member_id,
            group_instance_id=self.member.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(
                schema.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols.items()
            ),
            reason=self.reason,
        )

    def read(self, response: Any) -> Joined:
        """The generation."""
        return Joined(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.protocol_name or "",
            response.leader,
            tuple(
                Subscribed(each.member_id, each.group_instance_id, each.metadata)
                for each in response.members
            ),
            response.skip_assignment,
        )


class Synced(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncGroup(SchemaRequest):
    """Ask for the member's partitions; only the leader sends an ``assignment`` of all members."""

    member: Membership
    protocol: str
    assignment: Mapping[str, bytes]
    api = Api.SYNC_GROUP

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.SyncGroupRequest(
            **self.member.fields(),
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=tuple(
                schema.SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)
                for member_id, assigned in self.assignment.items()
            ),
        )

    def read(self, response: Any) -> Synced:
        """The member's partitions. Raises :class:`ProtocolError` if they can't be understood."""
        if response.error_code:
            return Synced(response.error_code)
        return Synced(0, tuple(assigned_in(response.assignment)))


@dataclass(frozen=True, slots=True)
class Heartbeat(SchemaRequest):
    """Tell the coordinator that the member lives; the answer announces a rebalance."""

    member: Membership
    api = Api.HEARTBEAT

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.HeartbeatRequest(**self.member.fields())

    def read(self, response: Any) -> int:
        """The error code."""
        return int(response.error_code)


class ClassicGroup(NamedTuple):
    """A group as its coordinator describes it to members of the classic protocol."""

    error_code: int
    """GROUP_ID_NOT_FOUND: it does not exist, or is of another kind."""
    protocol_type: str = ""
    assignor: str = ""
    """The one that its members have chosen; empty: a rebalance is under way."""
    has_members: bool = False


_WITHOUT_MEMBERS: Final = frozenset({"", "Empty", "Dead"})
"""Dead: it does not exist, in versions before 6 (KIP-1043)."""


@dataclass(frozen=True, slots=True)
class DescribeClassicGroup(SchemaRequest):
    """Ask a coordinator by which protocol a group has members."""

    group_id: str
    api = Api.DESCRIBE_GROUPS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.DescribeGroupsRequest(groups=(self.group_id,))

    def read(self, response: Any) -> ClassicGroup:
        """The group. Raises :class:`ProtocolError` if the answer is about others."""
        for each in response.groups:
            if each.group_id == self.group_id:
                return ClassicGroup(
                    each.error_code,
                    each.protocol_type,
                    each.protocol_data,
                    each.group_state not in _WITHOUT_MEMBERS,
                )
        raise ProtocolError(f"a description of other groups than {self.group_id!r}")


@dataclass(frozen=True, slots=True)
class GroupKind(SchemaRequest):
    """Ask a coordinator of which kind a group is, which it refuses to let a member join."""

    group_id: str
    api = Api.LIST_GROUPS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.ListGroupsRequest()

    def read(self, response: Any) -> tuple[str, str]:
        """The type of its members' protocol, and its type (KIP-848); empty: it is not known."""
        for each in response.groups:
            if each.group_id == self.group_id:
                return each.protocol_type, each.group_type or ""
        return "", ""


_FIRST_WITH_SEVERAL_MEMBERS: Final = 3


@dataclass(frozen=True, slots=True)
class LeaveGroup(SchemaRequest):
    """Leave a group, so that the others need not wait for the end of the session."""

    member: Membership
    reason: str
    """For the coordinator's log (KIP-800)."""
    api = Api.LEAVE_GROUP

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        group_id, member_id, _, instance_id = self.member[:4]
        if version < _FIRST_WITH_SEVERAL_MEMBERS:
            return schema.LeaveGroupRequest(group_id=group_id, member_id=member_id)
        leaving = schema.MemberIdentity(
            member_id=member_id, group_instance_id=instance_id, reason=self.reason
        )
        return schema.LeaveGroupRequest(group_id=group_id, members=(leaving,))

    def read(self, response: Any) -> int:
        """The error code, of the member if it has one of its own."""
        codes = [each.error_code for each in response.members or ()]
        return int(response.error_code or next(filter(None, codes), 0))


# --- a member of KIP-848 ------------------------------------------------------------------------

JOINING: Final = 0
"""The epoch of a member that joins."""
LEAVING: Final = -1
"""The epoch of a member that leaves."""
LEAVING_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves and keeps its partitions."""

PartitionsById = Mapping[UUID, Sequence[int]]
"""The numbers of partitions by the ids of their topics."""


class MemberState(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    message: str
    member_id: str
    epoch: int
    interval_ms: int
    """The time between heartbeats."""
    assignment: PartitionsById | None
    """The partitions that the member may have; None: the same as before."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat(SchemaRequest):
    """Tell the coordinator that the member lives, and what has changed; None: it is as before."""

    member: Membership
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    owned: PartitionsById | None = None
    rack: str | None = None
    api = Api.CONSUMER_GROUP_HEARTBEAT

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        timeout = self.rebalance_timeout_ms
        return schema.ConsumerGroupHeartbeatRequest(
            group_id=self.member.group_id,
            member_id=self.member.member_id,
            member_epoch=self.member.generation,
            instance_id=self.member.instance_id,
            rack_id=self.rack,
            rebalance_timeout_ms=-1 if timeout is None else timeout,
            subscribed_topic_names=self.topics,
            server_assignor=self.assignor,
            topic_partitions=None
            if self.owned is None
            else tuple(
                schema.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
                for topic_id, numbers in self.owned.items()
            ),
        )

    def read(self, response: Any) -> MemberState:
        """The member as the coordinator knows it."""
        given = response.assignment
        return MemberState(
            int(response.error_code),
            response.error_message or "",
            response.member_id or "",
            response.member_epoch,
            response.heartbeat_interval_ms,
            None
            if given is None
            else {each.topic_id: tuple(each.partitions) for each in given.topic_partitions},
        )


# --- offsets ------------------------------------------------------------------------------------

LAST_VERSION_WITH_NAMES: Final = 9
"""Of OffsetCommit. Later ones have topics by their ids."""


@dataclass(frozen=True, slots=True)
class OffsetCommit(SchemaRequest):
    """Commit offsets as a member; an old member is refused.

    With ids, offsets of a topic that was deleted are not committed to its successor (KIP-848).
    """

    member: Membership
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The ids of topics. If one is missing, the offsets are those of the names, whatever ids they
    have."""
    api = Api.OFFSET_COMMIT

    def chosen_version(self, version: int) -> int:
        """``version``, or the highest one with names."""
        has_ids = self.topic_ids.keys() >= {where.topic for where in self.offsets}
        return version if has_ids else min(version, LAST_VERSION_WITH_NAMES)

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        group_id, member_id, generation, instance_id = self.member[:4]
        return schema.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=tuple(
                schema.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_ids.get(topic),
                    partitions=tuple(self._partition(schema, topic, each) for each in numbers),
                )
                for topic, numbers in by_topic(self.offsets).items()
            ),
        )

    def _partition(self, schema: Schema, topic: str, number: int) -> Any:
        offset = self.offsets[TopicPartition(topic, number)]
        return schema.OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset.offset,
            committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
            committed_metadata=offset.metadata,
        )

    def read(self, response: Any) -> Mapping[TopicPartition, int]:
        """The error code of each partition."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        codes: dict[TopicPartition, int] = {}
        for topic in response.topics:
            name = names.get(topic.topic_id, topic.name)
            for each in topic.partitions:
                codes[TopicPartition(name, each.partition_index)] = int(each.error_code)
        for where in self.offsets:
            if where not in codes:
                raise ProtocolError(f"the response does not mention {where}")
        return codes


class FetchedOffsets(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    """None: the group has committed no offset of the partition."""


@dataclass(frozen=True, slots=True)
class GroupOffsetFetch(SchemaRequest):
    """Fetch committed offsets. Those that an open transaction would change are not ready yet."""

    member: Membership
    partitions: frozenset[TopicPartition]
    api = Api.OFFSET_FETCH

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        member = None
        if self.member.has_epochs and self.member.generation > 0:
            member = self.member.member_id, self.member.generation
        return offset_fetch_message(
            schema, version, self.member.group_id, self.partitions, member=member
        )

    def read(self, response: Any) -> FetchedOffsets:
        """The offsets, or the error code that decides."""
        said = fetched_offsets(response, self.member.group_id, self.partitions)
        if said.error_code:
            return FetchedOffsets(said.error_code, {})
        return FetchedOffsets(
            0, {where: said.offsets.get(where) for where in sorted(self.partitions)}
        )
