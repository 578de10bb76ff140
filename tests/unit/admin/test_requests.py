"""The requests of an Admin in every version; both directions go over the wire through kio."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3 import data as consumers

from aioproducer.admin import (
    Append,
    ConfigEntry,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    NewTopic,
    Subtract,
)
from aioproducer.admin.requests import (
    AlterConfigsRequest,
    AlterOffsetsRequest,
    Answer,
    ApiVersionsRequest,
    CommittedOffsetsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aioproducer.admin.topics import RecordCalls
from aioproducer.engine.client.requests import FoundOffset
from aioproducer.engine.network.request import Request
from aioproducer.engine.protocol import Api
from aioproducer.engine.transactions.requests import FindCoordinator, Response, group_coordinator
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition
from tests.support.kio_messages import encode, response_type, sample, theirs
from tests.unit.transactions.wire import each_version, over_the_wire, responses

TOPIC_ID = UUID(int=7)
SECONDS = datetime.timedelta(seconds=9)
REFUSED = ErrorCode.POLICY_VIOLATION
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 2)
EVENT = TopicPartition("events", 5)


def built(request: Request, version: int) -> Any:
    """The request as a broker reads it."""
    assert request.answered
    read = theirs(request.build(version))
    assert (int(read.__api_key__), int(read.__version__)) == (request.api, version)
    return read


def response(api: Api, version: int, **values: Any) -> Any:
    """A response as it comes in; ``values`` by the names of fields, the rest is filled in."""
    return over_the_wire(sample(response_type(api, version), values))


def part(api: Api, version: int, kind: str, /, **values: Any) -> Any:
    """A part of a response."""
    return sample(getattr(responses(api, version), kind), values)


def refusal(version: int, since: int, text: str = "no!") -> Answer:
    """The answer of a response whose versions from ``since`` on have the broker's words."""
    return Answer(int(REFUSED), text if version >= since else None)


# --- CreateTopics --------------------------------------------------------------------------------

BY_NUMBERS = NewTopic("orders", 6, 3, configs={"retention.ms": 7, "preallocate": True})
BY_ASSIGNMENT = NewTopic("events", assignment={1: (2, 1), 0: (1, 2)})


@each_version(Api.CREATE_TOPICS)
def test_topics_are_asked_for(version: int) -> None:
    request = CreateTopicsRequest((BY_NUMBERS, BY_ASSIGNMENT), 9000, True)
    read = built(request, version)
    assert (read.timeout, read.validate_only) == (SECONDS, True)
    orders, events = read.topics
    assert (orders.name, orders.num_partitions, orders.replication_factor) == ("orders", 6, 3)
    assert {each.name: each.value for each in orders.configs} == {
        "retention.ms": "7",
        "preallocate": "true",
    }
    assert orders.assignments == events.configs == ()
    assert (events.name, events.num_partitions, events.replication_factor) == ("events", -1, -1)
    assert {each.partition_index: each.broker_ids for each in events.assignments} == {
        0: (1, 2),
        1: (2, 1),
    }


@each_version(Api.CREATE_TOPICS)
@pytest.mark.parametrize("topic", [NewTopic("orders"), NewTopic("orders", 3)])
def test_the_defaults_of_brokers(version: int, topic: NewTopic) -> None:
    request = CreateTopicsRequest((topic,), 9000)
    if version < 4:
        with pytest.raises(UnsupportedVersionError, match=r"'orders'.*before Kafka 2\.4.*name"):
            request.build(version)
        return
    (asked,) = built(request, version).topics
    assert (asked.num_partitions, asked.replication_factor) == (topic.partitions or -1, -1)


@each_version(Api.CREATE_TOPICS)
def test_topics_that_were_created(version: int) -> None:
    said = response(
        Api.CREATE_TOPICS,
        version,
        topics=(
            part(Api.CREATE_TOPICS, version, "CreatableTopicResult", name="other"),
            part(
                Api.CREATE_TOPICS,
                version,
                "CreatableTopicResult",
                name="events",
                error_code=REFUSED,
                error_message="no!",
                configs=None,
            ),
            part(
                Api.CREATE_TOPICS,
                version,
                "CreatableTopicResult",
                name="orders",
                error_message=None,
                topic_id=TOPIC_ID,
                num_partitions=6,
                replication_factor=3,
                config_source=5,
                value="7",
                read_only=False,
                is_sensitive=False,
                **(
                    {
                        "configs": (
                            part(
                                Api.CREATE_TOPICS,
                                version,
                                "CreatableTopicConfigs",
                                name="retention.ms",
                                value="7",
                                config_source=5,
                                read_only=False,
                                is_sensitive=False,
                            ),
                        )
                    }
                    if version >= 5
                    else {}
                ),
            ),
        ),
    )
    answers = CreateTopicsRequest((BY_NUMBERS, BY_ASSIGNMENT), 9000).read(said)
    assert list(answers) == ["orders", "events"]
    entry = ConfigEntry("retention.ms", "7", "DEFAULT_CONFIG")
    later = (6, 3, {"retention.ms": entry}) if version >= 5 else (None, None, None)
    created = CreatedTopic("orders", TOPIC_ID if version >= 7 else None, *later)
    assert answers["orders"] == Answer(value=created)
    assert answers["events"] == refusal(version, 0)


@each_version(Api.CREATE_TOPICS)
def test_an_answer_that_lacks_a_topic(version: int) -> None:
    said = response(Api.CREATE_TOPICS, version, topics=())
    with pytest.raises(ProtocolError, match="does not mention 'orders'"):
        CreateTopicsRequest((BY_NUMBERS,), 9000).read(said)


# --- CreatePartitions, DeleteTopics --------------------------------------------------------------


@each_version(Api.CREATE_PARTITIONS)
@pytest.mark.parametrize("assignment", [None, ((1, 2), (2, 1))])
def test_partitions_are_asked_for(version: int, assignment: Any) -> None:
    read = built(CreatePartitionsRequest("orders", 8, assignment, 9000, True), version)
    assert (read.timeout, read.validate_only) == (SECONDS, True)
    (topic,) = read.topics
    assert (topic.name, topic.count) == ("orders", 8)
    found = topic.assignments
    assert (found and tuple(each.broker_ids for each in found)) == assignment


@each_version(Api.CREATE_PARTITIONS)
@pytest.mark.parametrize("code", [ErrorCode.NONE, REFUSED])
def test_partitions_that_were_added(version: int, code: ErrorCode) -> None:
    said = response(
        Api.CREATE_PARTITIONS, version, name="orders", error_code=code, error_message="no!"
    )
    answers = CreatePartitionsRequest("orders", 8, None, 9000).read(said)
    assert answers == {"orders": Answer(int(code), "no!")}


@each_version(Api.DELETE_TOPICS)
def test_topics_are_deleted_by_name(version: int) -> None:
    read = built(DeleteTopicsRequest(("orders", "events"), 9000), version)
    assert read.timeout == SECONDS
    if version < 6:
        assert read.topic_names == ("orders", "events")
        return
    assert [(each.name, each.topic_id) for each in read.topics] == [
        ("orders", None),
        ("events", None),
    ]


@each_version(Api.DELETE_TOPICS)
def test_topics_that_were_deleted(version: int) -> None:
    results = tuple(
        part(
            Api.DELETE_TOPICS,
            version,
            "DeletableTopicResult",
            name=name,
            error_code=code,
            error_message="no!" if code else None,
        )
        for name, code in (("events", REFUSED), ("orders", ErrorCode.NONE))
    )
    said = response(Api.DELETE_TOPICS, version, responses=results)
    answers = DeleteTopicsRequest(("orders", "events"), 9000).read(said)
    assert answers == {"orders": Answer(), "events": refusal(version, 5)}


@each_version(Api.DELETE_TOPICS)
def test_an_unknown_topic_is_told_in_our_words(version: int) -> None:
    """A broker's own ones are about a partition that it does not host."""
    said = response(
        Api.DELETE_TOPICS,
        version,
        name="orders",
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )
    assert DeleteTopicsRequest(("orders",), 9000).read(said) == {"orders": Answer(3)}


# --- DeleteRecords -------------------------------------------------------------------------------

DELETED = {ONE: 7, EVENT: 2**62, TWO: -1}


@each_version(Api.DELETE_RECORDS)
def test_records_are_deleted_by_offset(version: int) -> None:
    read = built(DeleteRecordsRequest(DELETED, 9000), version)
    assert read.timeout == SECONDS
    asked = {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in read.topics
        for each in topic.partitions
    }
    assert asked == DELETED
    assert len(read.topics) == 2


@each_version(Api.DELETE_RECORDS)
def test_the_first_offsets_after_records_were_deleted(version: int) -> None:
    def result(number: int, first: int, code: ErrorCode = ErrorCode.NONE) -> Any:
        return part(
            Api.DELETE_RECORDS,
            version,
            "DeleteRecordsPartitionResult",
            partition_index=number,
            low_watermark=first,
            error_code=code,
        )

    def topic(name: str, *partitions: Any) -> Any:
        kind = responses(Api.DELETE_RECORDS, version).DeleteRecordsTopicResult
        return kind(name=name, partitions=partitions)

    topics = (topic("events", result(5, -1, REFUSED)), topic("orders", result(2, 9), result(0, 7)))
    said = response(Api.DELETE_RECORDS, version, topics=topics)
    assert DeleteRecordsRequest(DELETED, 9000).read(said) == {
        ONE: Answer(value=7),
        EVENT: Answer(int(REFUSED)),
        TWO: Answer(value=9),
    }
    with pytest.raises(ProtocolError, match="does not mention"):
        DeleteRecordsRequest({TopicPartition("orders", 1): 0}, 9000).read(said)
    beyond = response(
        Api.DELETE_RECORDS, version, partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE
    )
    answer = Answer(1, "the partition ends before the offset")
    assert DeleteRecordsRequest({ONE: 7}, 9000).read(beyond) == {ONE: answer}


# --- configurations ------------------------------------------------------------------------------


@each_version(Api.DESCRIBE_CONFIGS)
@pytest.mark.parametrize("names", [None, ("retention.ms",)])
def test_configurations_are_asked_for(version: int, names: Any) -> None:
    read = built(DescribeConfigsRequest(("orders", 3, "3"), names), version)
    assert [(each.resource_type, each.resource_name) for each in read.resources] == [
        (2, "orders"),
        (4, "3"),
        (2, "3"),
    ]
    assert {each.configuration_keys for each in read.resources} == {names}
    assert not read.include_synonyms
    assert not getattr(read, "include_documentation", False)


@each_version(Api.DESCRIBE_CONFIGS)
def test_configurations_that_were_described(version: int) -> None:
    def resource(kind: int, name: str, code: ErrorCode, *configs: Any) -> Any:
        return part(
            Api.DESCRIBE_CONFIGS,
            version,
            "DescribeConfigsResult",
            resource_type=kind,
            resource_name=name,
            error_code=code,
            error_message="no!" if code else "",
            configs=configs,
        )

    def config(name: str, value: str | None, source: int, secret: bool) -> Any:
        return part(
            Api.DESCRIBE_CONFIGS,
            version,
            "DescribeConfigsResourceResult",
            name=name,
            value=value,
            config_source=source,
            is_sensitive=secret,
            read_only=secret,
            synonyms=(),
        )

    results = (
        resource(2, "3", REFUSED),
        resource(4, "3", ErrorCode.NONE, config("password", None, 4, True)),
        resource(
            2, "orders", ErrorCode.NONE, config("a", "1", 1, False), config("b", "", 99, False)
        ),
    )
    said = response(Api.DESCRIBE_CONFIGS, version, results=results)
    assert DescribeConfigsRequest(("orders", 3, "3")).read(said) == {
        "orders": Answer(
            value={
                "a": ConfigEntry("a", "1", "DYNAMIC_TOPIC_CONFIG"),
                "b": ConfigEntry("b", "", "UNKNOWN"),
            }
        ),
        3: Answer(
            value={"password": ConfigEntry("password", None, "STATIC_BROKER_CONFIG", True, True)}
        ),
        "3": refusal(version, 0),
    }


@each_version(Api.INCREMENTAL_ALTER_CONFIGS)
def test_changes_of_configurations(version: int) -> None:
    changes: dict[str | int, dict[str, str | Append | Subtract | None]] = {
        "orders": {"set": "1", "delete": None, "append": Append("x"), "subtract": Subtract("y")},
        2: {"set": ""},
    }
    read = built(AlterConfigsRequest(changes, True), version)
    assert read.validate_only
    orders, broker = read.resources
    assert (orders.resource_type, orders.resource_name) == (2, "orders")
    assert [(each.name, each.config_operation, each.value) for each in orders.configs] == [
        ("set", 0, "1"),
        ("delete", 1, None),
        ("append", 2, "x"),
        ("subtract", 3, "y"),
    ]
    assert (broker.resource_type, broker.resource_name) == (4, "2")
    assert [(each.config_operation, each.value) for each in broker.configs] == [(0, "")]


@each_version(Api.INCREMENTAL_ALTER_CONFIGS)
@pytest.mark.parametrize("code", [ErrorCode.NONE, REFUSED])
def test_configurations_that_were_changed(version: int, code: ErrorCode) -> None:
    said = response(
        Api.INCREMENTAL_ALTER_CONFIGS,
        version,
        resource_type=4,
        resource_name="2",
        error_code=code,
        error_message="no!",
    )
    assert AlterConfigsRequest({2: {"a": "1"}}).read(said) == {2: Answer(int(code), "no!")}
    with pytest.raises(ProtocolError, match="does not mention"):
        AlterConfigsRequest({"2": {"a": "1"}}).read(said)


# --- groups --------------------------------------------------------------------------------------


@each_version(Api.FIND_COORDINATOR)
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_coordinator_of_a_group(version: int, code: ErrorCode) -> None:
    request = FindCoordinator(group_coordinator("readers"))
    read = built(request, version)
    assert read.key_type == 0
    assert (read.coordinator_keys if version >= 4 else (read.key,)) == ("readers",)
    values = {"node_id": 3, "host": "::1", "port": 9093, "error_code": code}
    said = response(Api.FIND_COORDINATOR, version, key="readers", error_message="wait", **values)
    there = Node(3, "::1", 9093) if not code else None
    assert request.read(said) == Response(int(code), "wait", node=there)


@pytest.mark.parametrize(("number", "host"), [(-1, "h"), (3, "")])
def test_a_coordinator_that_cannot_be(number: int, host: str) -> None:
    said = response(Api.FIND_COORDINATOR, 3, node_id=number, host=host)
    with pytest.raises(ProtocolError, match="can't be the coordinator of 'readers'"):
        FindCoordinator(group_coordinator("readers")).read(said)


@pytest.mark.parametrize("version", [4, 6])
def test_the_coordinator_of_another_group(version: int) -> None:
    said = response(Api.FIND_COORDINATOR, version, key="others")
    with pytest.raises(ProtocolError, match="'readers'"):
        FindCoordinator(group_coordinator("readers")).read(said)


@each_version(Api.LIST_GROUPS)
def test_the_groups_of_a_coordinator(version: int) -> None:
    request = ListGroupsRequest()
    read = built(request, version)
    assert getattr(read, "states_filter", ()) == getattr(read, "types_filter", ()) == ()
    said = response(
        Api.LIST_GROUPS,
        version,
        group_id="readers",
        protocol_type="consumer",
        group_state="Stable",
        group_type="classic",
    )
    state = "Stable" if version >= 4 else None
    kind = "classic" if version >= 5 else None
    assert request.read(said) == Answer(value=(GroupListing("readers", "consumer", state, kind),))
    refused = response(Api.LIST_GROUPS, version, error_code=REFUSED)
    assert request.read(refused) == Answer(int(REFUSED))


PARTITIONS: Any = consumers.TopicPartition
ASSIGNED = b"\0\3" + encode(
    consumers.ConsumerProtocolAssignment(
        assigned_partitions=(
            PARTITIONS(topic="orders", partitions=(0, 2)),
            PARTITIONS(topic="events", partitions=(5,)),
        ),
        user_data=b"u",
    )
)


def described(version: int, **values: Any) -> Mapping[str, Answer]:
    said = response(
        Api.DESCRIBE_GROUPS,
        version,
        **{
            "group_id": "readers",
            "protocol_type": "consumer",
            "group_state": "Stable",
            "protocol_data": "range",
            "member_id": "m-1",
            "client_id": "app",
            "client_host": "/::1",
            "group_instance_id": "static",
            "member_assignment": ASSIGNED,
            "error_message": None,
            **values,
        },
    )
    return DescribeGroupsRequest(("readers",)).read(said)


@each_version(Api.DESCRIBE_GROUPS)
def test_a_classic_group(version: int) -> None:
    read = built(DescribeGroupsRequest(("readers", "others")), version)
    assert read.groups == ("readers", "others")
    assert not getattr(read, "include_authorized_operations", False)
    instance = "static" if version >= 4 else None
    member = GroupMember("m-1", instance, "app", "/::1", (ONE, TWO, EVENT))
    group = GroupDescription("readers", "classic", "Stable", "consumer", "range", (member,))
    assert described(version) == {"readers": Answer(value=group)}


@each_version(Api.DESCRIBE_GROUPS)
def test_a_group_that_is_not_there(version: int) -> None:
    assert described(version, group_state="Dead")["readers"].error_code == 69
    said = described(version, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="none!")
    assert said == {"readers": Answer(69, "none!" if version >= 6 else None)}


@pytest.mark.parametrize("kind", ["connect", ""])
def test_members_that_are_no_consumers(kind: str) -> None:
    (member,) = described(5, protocol_type=kind)["readers"].value.members
    assert member.partitions is None


@pytest.mark.parametrize(
    "data", [b"\0", ASSIGNED[:-6], b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\3\xff\xff\xff"]
)
def test_an_assignment_that_makes_no_sense(data: bytes) -> None:
    (member,) = described(5, member_assignment=data)["readers"].value.members
    assert member.partitions is None


def test_a_member_without_an_assignment() -> None:
    (member,) = described(5, member_assignment=b"")["readers"].value.members
    assert member.partitions == ()


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda data: ASSIGNED[:9] + data))
def test_no_assignment_breaks_a_description(data: bytes) -> None:
    """A consumer wrote it: it is nobody's word."""
    (member,) = described(5, member_assignment=data)["readers"].value.members
    for each in member.partitions or ():
        assert isinstance(each, TopicPartition)


@each_version(Api.CONSUMER_GROUP_DESCRIBE)
def test_a_group_with_the_newer_protocol(version: int) -> None:
    request = DescribeConsumerGroupsRequest(("readers",))
    read = built(request, version)
    assert (read.group_ids, read.include_authorized_operations) == (("readers",), False)
    kind = responses(Api.CONSUMER_GROUP_DESCRIBE, version)

    def assignment(topic: str, *numbers: int) -> Any:
        each = kind.TopicPartitions(topic_id=TOPIC_ID, topic_name=topic, partitions=numbers)
        return kind.Assignment(topic_partitions=(each,))

    said = response(
        Api.CONSUMER_GROUP_DESCRIBE,
        version,
        group_id="readers",
        group_state="Reconciling",
        assignor_name="uniform",
        member_id="m-1",
        instance_id=None,
        client_id="app",
        client_host="/::1",
        assignment=assignment("orders", 0, 2),
        target_assignment=assignment("events", 5),
    )
    member = GroupMember("m-1", None, "app", "/::1", (ONE, TWO))
    group = GroupDescription("readers", "consumer", "Reconciling", "consumer", "uniform", (member,))
    assert request.read(said)["readers"].value == group


@each_version(Api.OFFSET_FETCH)
def test_all_offsets_of_a_group(version: int) -> None:
    request = CommittedOffsetsRequest("readers")
    read = built(request, version)
    assert not read.require_stable
    (asked,) = read.groups if version >= 8 else (read,)
    assert (asked.group_id, asked.topics) == ("readers", None)
    plural = "s" if version >= 8 else ""
    partitions = tuple(
        part(
            Api.OFFSET_FETCH,
            version,
            f"OffsetFetchResponsePartition{plural}",
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            metadata=metadata,
        )
        for number, offset, epoch, metadata in ((0, 7, 3, "note"), (1, -1, -1, ""), (2, 0, -1, ""))
    )
    said = response(
        Api.OFFSET_FETCH, version, group_id="readers", name="orders", partitions=partitions
    )
    found = {ONE: OffsetAndMetadata(7, "note", 3), TWO: OffsetAndMetadata(0)}
    assert request.read(said) == {"readers": Answer(value=found)}


@each_version(Api.OFFSET_FETCH)
def test_refused_offsets(version: int) -> None:
    request = CommittedOffsetsRequest("readers")
    whole = response(Api.OFFSET_FETCH, version, group_id="readers", error_code=REFUSED)
    assert request.read(whole) == {"readers": Answer(int(REFUSED))}
    if version >= 8:
        with pytest.raises(ProtocolError, match="'readers'"):
            request.read(response(Api.OFFSET_FETCH, version, group_id="others"))


def committed(version: int, *codes: tuple[TopicPartition, int]) -> Any:
    kind = responses(Api.OFFSET_COMMIT, version)
    topics = tuple(
        kind.OffsetCommitResponseTopic(
            name=where.topic,
            partitions=(
                kind.OffsetCommitResponsePartition(
                    partition_index=where.partition, error_code=ErrorCode(code)
                ),
            ),
        )
        for where, code in codes
    )
    return response(Api.OFFSET_COMMIT, version, topics=topics)


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_that_no_member_commits(version: int) -> None:
    offsets = {TWO: OffsetAndMetadata(2**62, "note", 8), EVENT: OffsetAndMetadata(0)}
    request = AlterOffsetsRequest("readers", offsets)
    read = built(request, version)
    generation = getattr(read, "generation_id_or_member_epoch", -1)
    assert (read.group_id, generation, read.member_id) == ("readers", -1, "")
    assert getattr(read, "group_instance_id", None) is None
    assert {
        TopicPartition(topic.name, each.partition_index): (
            each.committed_offset,
            each.committed_metadata,
            getattr(each, "committed_leader_epoch", -1),
        )
        for topic in read.topics
        for each in topic.partitions
    } == {TWO: (2**62, "note", 8 if version >= 6 else -1), EVENT: (0, "", -1)}
    said = committed(version, (EVENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (TWO, 0))
    assert request.read(said) == Answer(value={TWO: Answer(), EVENT: Answer(3)})
    with pytest.raises(ProtocolError, match="does not mention"):
        request.read(committed(version, (TWO, 0)))


def test_offsets_that_no_member_commits_are_those_of_names() -> None:
    assert AlterOffsetsRequest("readers", {ONE: OffsetAndMetadata(7)}).build(10).version == 9


@pytest.mark.parametrize("code", [22, 25, 113])
def test_a_group_with_members_takes_offsets_from_them_alone(code: int) -> None:
    request = AlterOffsetsRequest("readers", {ONE: OffsetAndMetadata(7)})
    answer = request.read(committed(9, (ONE, code)))
    assert answer.error_code == code
    assert answer.message is not None
    assert "the group has members" in answer.message


@each_version(Api.OFFSET_DELETE)
def test_offsets_are_deleted(version: int) -> None:
    request = DeleteOffsetsRequest("readers", (TWO, EVENT, ONE))
    read = built(request, version)
    asked = {
        (topic.name, each.partition_index) for topic in read.topics for each in topic.partitions
    }
    assert (read.group_id, asked, len(read.topics)) == ("readers", {ONE, TWO, EVENT}, 2)
    kind = responses(Api.OFFSET_DELETE, version)

    def topic(name: str, *codes: tuple[int, int]) -> Any:
        partitions = tuple(
            kind.OffsetDeleteResponsePartition(partition_index=number, error_code=ErrorCode(code))
            for number, code in codes
        )
        return kind.OffsetDeleteResponseTopic(name=name, partitions=partitions)

    topics = (topic("events", (5, 86)), topic("orders", (0, 0), (2, 0)))
    said = response(Api.OFFSET_DELETE, version, error_code=ErrorCode.NONE, topics=topics)
    each = {TWO: Answer(), EVENT: Answer(86), ONE: Answer()}
    assert request.read(said) == Answer(value=each)
    whole = response(Api.OFFSET_DELETE, version, error_code=ErrorCode.NON_EMPTY_GROUP, topics=())
    assert request.read(whole) == Answer(68)
    with pytest.raises(ProtocolError, match="does not mention"):
        request.read(response(Api.OFFSET_DELETE, version, error_code=ErrorCode.NONE, topics=()))


@each_version(Api.DELETE_GROUPS)
def test_groups_are_deleted(version: int) -> None:
    request = DeleteGroupsRequest(("readers", "others"))
    assert built(request, version).groups_names == ("readers", "others")
    results = tuple(
        part(
            Api.DELETE_GROUPS,
            version,
            "DeletableGroupResult",
            group_id=group,
            error_code=ErrorCode(code),
            error_message="no!" if code else None,
        )
        for group, code in (("others", 68), ("readers", 0))
    )
    answers = request.read(response(Api.DELETE_GROUPS, version, results=results))
    assert answers == {"readers": Answer(), "others": Answer(68, "no!" if version >= 3 else None)}


# --- ApiVersions ---------------------------------------------------------------------------------


@each_version(Api.API_VERSIONS)
def test_the_versions_of_a_broker(version: int) -> None:
    request = ApiVersionsRequest()
    read = built(request, version)
    if version >= 3:
        assert read.client_software_name == "aioproducer"
    keys = tuple(
        part(Api.API_VERSIONS, version, "ApiVersion", api_key=key, min_version=1, max_version=high)
        for key, high in ((19, 7), (0, 13), (9999, 3))
    )
    said = response(Api.API_VERSIONS, version, api_keys=keys)
    assert request.read(said) == Answer(value={"CREATE_TOPICS": (1, 7), "PRODUCE": (1, 13)})


# --- many partitions ----------------------------------------------------------------------------


async def test_ends_of_many_partitions_are_asked_for_in_portions() -> None:
    places = [TopicPartition("orders", number) for number in range(2_500)]
    asked: list[int] = []

    async def request(asking: Any, node: object) -> Any:
        asked.append(len(asking.partitions))
        return {where: FoundOffset(0, where.partition, -1, -1) for where in asking.partitions}

    async def at_leaders(outcomes: Any, pending: Any, ask: Any, missing: Any) -> Any:
        return await ask(pending, None)

    async def settle(outcomes: Any, attempt: Any, doing: str, timeout: float | None) -> Any:
        outcomes.take(await attempt(outcomes.pending))
        return outcomes.results()

    calls: Any = SimpleNamespace(
        client=SimpleNamespace(request=request), at_leaders=at_leaders, settle=settle
    )
    found = await RecordCalls(calls).ends(places, None)
    assert asked == [1_000, 1_000, 500]
    assert found == {where: where.partition for where in places}
