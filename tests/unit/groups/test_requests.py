"""The requests of a group's member, and what members tell each other, judged by kio; reactions."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.schema.consumer_protocol_assignment.v1 import data as assignments
from kio.schema.consumer_protocol_subscription.v0 import data as oldest
from kio.schema.consumer_protocol_subscription.v3 import data as subscriptions
from kio.serial import entity_reader

from aioproducer.engine.groups.assignors import GroupMember
from aioproducer.engine.groups.requests import (
    FetchedOffsets,
    GroupOffsetFetch,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Membership,
    OffsetCommit,
    Reaction,
    Synced,
    SyncGroup,
    assigned_in,
    assignment_bytes,
    assignments_bytes,
    partitions_may_have_moved,
    reaction_to,
    subscription_bytes,
    subscription_of,
    subscriptions_of,
)
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import encode, judged, milliseconds, ours, response_module, theirs
from tests.support.responses import at_once

MEMBER = Membership("billing", "member-1", 7)
STATIC = MEMBER._replace(instance_id="static-1")
ONE, TWO = TopicPartition("a", 0), TopicPartition("a", 1)
NOTHING = milliseconds(0)


def each_version(api: Api) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", judged(api))


def member_for(version: int, first_with_instances: int) -> Membership:
    return STATIC if version >= first_with_instances else MEMBER


def named(said: Any, version: int, first_with_instances: int) -> None:
    """The request names the group, the member and its generation."""
    assert (said.group_id, said.member_id) == ("billing", "member-1")
    assert said.generation_id == 7
    if version >= first_with_instances:
        assert said.group_instance_id == "static-1"


@each_version(Api.JOIN_GROUP)
def test_joining(version: int) -> None:
    data = subscription_bytes(["a"], (), -1, None)
    request = JoinGroup(
        member_for(version, 5), 45_000, 300_000, {"range": data, "sticky": b"x"}, "because"
    )
    said = theirs(request.build(version))
    assert (said.group_id, said.member_id, said.protocol_type) == (
        "billing",
        "member-1",
        "consumer",
    )
    assert [(each.name, each.metadata) for each in said.protocols] == [
        ("range", data),
        ("sticky", b"x"),
    ]
    assert getattr(said, "reason", "because") == "because"
    assert getattr(said, "group_instance_id", "static-1") == "static-1"
    parts = response_module(Api.JOIN_GROUP, version)
    static = {"group_instance_id": "s"} if version >= 5 else {}
    protocol = {"protocol_type": "consumer"} if version >= 7 else {}
    answer = ours(
        parts.JoinGroupResponse(
            throttle_time=NOTHING,
            error_code=ErrorCode.NONE,
            generation_id=8,
            protocol_name="range",
            leader="m",
            member_id="m",
            members=(parts.JoinGroupResponseMember(member_id="m", metadata=data, **static),),
            **protocol,
        )
    )
    joined = request.read(answer)
    assert joined[:5] == (0, "m", 8, "range", "m")
    [member] = at_once(subscriptions_of(joined.members))
    assert (member.member_id, member.topics) == ("m", ("a",))
    assert member.instance_id == ("s" if version >= 5 else None)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_that_is_too_old_for_static_members(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match="group_instance_id"):
        JoinGroup(STATIC, 1, 1, {}).build(version)


@each_version(Api.SYNC_GROUP)
def test_syncing(version: int) -> None:
    request = SyncGroup(
        member_for(version, 3), "range", at_once(assignments_bytes({"m": [ONE], "n": [TWO]}))
    )
    said = theirs(request.build(version))
    named(said, version, 3)
    assert [(each.member_id, each.assignment) for each in said.assignments] == [
        ("m", assignment_bytes([ONE])),
        ("n", assignment_bytes([TWO])),
    ]
    kind = response_module(Api.SYNC_GROUP, version).SyncGroupResponse

    def answered(code: ErrorCode, assignment: bytes) -> Synced:
        return request.read(
            ours(kind(throttle_time=NOTHING, error_code=code, assignment=assignment))
        )

    assert answered(ErrorCode.NONE, assignment_bytes([ONE, TWO])) == Synced(0, (ONE, TWO))
    assert answered(ErrorCode.NONE, b"") == Synced(0)
    assert answered(ErrorCode.REBALANCE_IN_PROGRESS, b"?") == Synced(27)
    with pytest.raises(ProtocolError):
        answered(ErrorCode.NONE, b"?")


@each_version(Api.HEARTBEAT)
def test_a_heartbeat(version: int) -> None:
    request = Heartbeat(member_for(version, 3))
    named(theirs(request.build(version)), version, 3)
    kind = response_module(Api.HEARTBEAT, version).HeartbeatResponse
    said = kind(throttle_time=NOTHING, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert request.read(ours(said)) == 27


@each_version(Api.LEAVE_GROUP)
def test_leaving(version: int) -> None:
    request = LeaveGroup(MEMBER, "closed")
    said = theirs(request.build(version))
    [leaving] = getattr(said, "members", (said,))
    assert (said.group_id, leaving.member_id) == ("billing", "member-1")
    assert getattr(leaving, "reason", "closed") == "closed"
    parts = response_module(Api.LEAVE_GROUP, version)

    def answered(code: ErrorCode, members_code: ErrorCode) -> int:
        members = {}
        if version >= 3:
            gone = parts.MemberResponse(
                member_id="member-1", group_instance_id=None, error_code=members_code
            )
            members = {"members": (gone,)}
        kind = parts.LeaveGroupResponse
        return request.read(ours(kind(throttle_time=NOTHING, error_code=code, **members)))

    assert answered(ErrorCode.NONE, ErrorCode.NONE) == 0
    assert answered(ErrorCode.NOT_COORDINATOR, ErrorCode.NONE) == 16
    if version >= 3:
        assert answered(ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID) == 25


@each_version(Api.OFFSET_COMMIT)
def test_committing(version: int) -> None:
    offsets = {ONE: OffsetAndMetadata(5, "m", 3), TWO: OffsetAndMetadata(6)}
    ids = {"a": UUID(int=7)} if version >= 10 else {}
    topic_of = {"topic_id": ids["a"]} if ids else {"name": "a"}
    request = OffsetCommit(member_for(version, 7), offsets, ids)
    said = theirs(request.build(version))
    assert (said.group_id, said.member_id) == ("billing", "member-1")
    [topic] = said.topics
    found = [(each.partition_index, each.committed_offset) for each in topic.partitions]
    assert found == [(0, 5), (1, 6)]
    assert all(getattr(topic, field) == value for field, value in topic_of.items())
    parts = response_module(Api.OFFSET_COMMIT, version)
    late = {"throttle_time": NOTHING} if version >= 3 else {}

    def answered(*numbers: int) -> Any:
        rows = tuple(
            parts.OffsetCommitResponsePartition(
                partition_index=number, error_code=ErrorCode.ILLEGAL_GENERATION
            )
            for number in numbers
        )
        topics = (parts.OffsetCommitResponseTopic(**topic_of, partitions=rows),)
        return request.read(ours(parts.OffsetCommitResponse(topics=topics, **late)))

    assert answered(0, 1) == {ONE: 22, TWO: 22}
    with pytest.raises(ProtocolError, match="not mention a-1"):
        answered(0)


def test_offsets_of_a_topic_are_committed_by_its_id_where_all_ids_are_known() -> None:
    one, other = UUID(int=7), UUID(int=8)
    offsets = {ONE: OffsetAndMetadata(5), TopicPartition("b", 0): OffsetAndMetadata(6)}
    assert OffsetCommit(MEMBER, offsets).build(10).version == 9
    assert OffsetCommit(MEMBER, offsets, {"a": one}).build(10).version == 9
    request = OffsetCommit(MEMBER, offsets, {"a": one, "b": other})
    assert request.build(10).version == 10
    assert request.build(8).version == 8
    schema = response_schema(Api.OFFSET_COMMIT)
    response = schema.OffsetCommitResponse(
        topics=tuple(
            schema.OffsetCommitResponseTopic(
                topic_id=topic_id,
                partitions=(
                    schema.OffsetCommitResponsePartition(partition_index=0, error_code=code),
                ),
            )
            for topic_id, code in ((other, 0), (one, ErrorCode.UNKNOWN_TOPIC_ID))
        )
    )
    assert request.read(response) == {
        ONE: ErrorCode.UNKNOWN_TOPIC_ID,
        TopicPartition("b", 0): ErrorCode.NONE,
    }


@each_version(Api.OFFSET_FETCH)
def test_fetching_offsets(version: int) -> None:
    request = GroupOffsetFetch(MEMBER, frozenset({ONE, TWO}))
    said = theirs(request.build(version))
    assert getattr(said, "require_stable", version < 7)
    [group] = getattr(said, "groups", (said,))
    assert group.group_id == "billing"
    assert [(each.name, each.partition_indexes) for each in group.topics] == [("a", (0, 1))]
    parts = response_module(Api.OFFSET_FETCH, version)
    plural = "s" if version >= 8 else ""

    def answered(code: int = 0, own: int = 0, numbers: tuple[int, ...] = (0, 1)) -> FetchedOffsets:
        row = getattr(parts, f"OffsetFetchResponsePartition{plural}")
        rows = tuple(
            row(
                partition_index=number,
                committed_offset=(5, -1)[number],
                **({"committed_leader_epoch": 3} if version >= 5 else {}),
                metadata="m",
                error_code=ErrorCode(own),
            )
            for number in numbers
        )
        topics = (getattr(parts, f"OffsetFetchResponseTopic{plural}")(name="a", partitions=rows),)
        given = {"topics": topics, "error_code": ErrorCode(code)}
        if plural:
            groups = (parts.OffsetFetchResponseGroup(group_id="billing", **given),)
            given = {"groups": groups}
        if version >= 3:
            given["throttle_time"] = NOTHING
        return request.read(ours(parts.OffsetFetchResponse(**given)))

    epoch = 3 if version >= 5 else None
    assert answered() == FetchedOffsets(0, {ONE: OffsetAndMetadata(5, "m", epoch), TWO: None})
    assert answered(code=16) == FetchedOffsets(16, {})
    assert answered(own=88) == FetchedOffsets(88, {})
    with pytest.raises(ProtocolError, match="not mention a-1"):
        answered(numbers=(0,))


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, True),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_MEMBER_EPOCH, True),
        (ErrorCode.STALE_MEMBER_EPOCH, True),
        (ErrorCode.NONE, False),
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.UNRELEASED_INSTANCE_ID, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_offsets_are_refused_because_partitions_may_have_moved(code: int, moved: bool) -> None:
    assert partitions_may_have_moved(code) is moved


def test_a_commit_with_an_old_epoch_is_repeated() -> None:
    assert reaction_to(ErrorCode.STALE_MEMBER_EPOCH) is Reaction.RETRY


@pytest.mark.parametrize(
    ("code", "served"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Reaction.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_ID, Reaction.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Reaction.FAIL),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, Reaction.FAIL),
    ],
)
def test_a_coordinator_has_to_learn_of_a_partition_that_is_served(
    code: int, served: Reaction
) -> None:
    assert reaction_to(code) is Reaction.FAIL
    assert reaction_to(code, is_served=True) is served


# --- what members tell each other --------------------------------------------------------------

OWNED = (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0))
SUBSCRIPTION = subscription_bytes(["b", "a"], OWNED, 7, "rack-1")
ASSIGNMENT = assignment_bytes(OWNED)
NOBODY = GroupMember("m", ())


def kios(kind: Any, data: bytes) -> Any:
    entity, size = entity_reader(kind)(data, 2)
    assert 2 + size == len(data)
    return entity


def test_a_subscription_as_others_read_it() -> None:
    assert SUBSCRIPTION[:2] == b"\0\3"
    said = kios(subscriptions.ConsumerProtocolSubscription, SUBSCRIPTION)
    assert (said.topics, said.generation_id, said.rack_id) == (("a", "b"), 7, "rack-1")
    owned = [(each.topic, each.partitions) for each in said.owned_partitions]
    assert owned == [("a", (1, 2)), ("b", (0,))]


def test_a_subscription_is_read_as_it_was_written() -> None:
    assert subscription_of("m", "s", SUBSCRIPTION) == GroupMember(
        "m", ("a", "b"), "s", OWNED, 7, "rack-1"
    )


def test_an_old_subscription_owns_nothing() -> None:
    old = b"\0\0" + encode(
        oldest.ConsumerProtocolSubscription(topics=("a", "a", "b"), user_data=b"x")
    )
    assert subscription_of("m", None, old) == GroupMember("m", ("a", "b"))


def test_a_newer_subscription_begins_as_the_newest_that_is_known() -> None:
    newer = b"\0\x09" + SUBSCRIPTION[2:] + b"more"
    assert subscription_of("m", None, newer).owned == OWNED


def test_an_assignment_as_others_read_it() -> None:
    said = kios(assignments.ConsumerProtocolAssignment, ASSIGNMENT)
    found = [(each.topic, each.partitions) for each in said.assigned_partitions]
    assert found == [("a", (1, 2)), ("b", (0,))]
    assert assigned_in(ASSIGNMENT) == [*OWNED]
    assert assigned_in(b"") == []


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\3", SUBSCRIPTION[:-1]])
def test_a_member_that_can_t_be_understood_gets_nothing(data: bytes) -> None:
    assert subscription_of("m", None, data) == NOBODY


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\1", ASSIGNMENT[:-1]])
def test_an_assignment_that_can_t_be_understood_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"{len(data)} bytes can't be understood"):
        assigned_in(data)


def test_damage_ends_in_nothing_or_in_one_error() -> None:
    random = Random(1)
    errors = 0
    for _ in range(3_000):
        found = subscription_of("m", None, damaged(SUBSCRIPTION, random))
        assert all(isinstance(topic, str) for topic in found.topics)
        try:
            assigned_in(damaged(ASSIGNMENT, random))
        except ProtocolError:
            errors += 1
    assert errors
