"""ListGroups, DescribeGroups and ConsumerGroupDescribe.

Source: Kafka's ``GroupCoordinatorService``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.groups import ClassicGroup, ConsumerGroup
from aioproducer.testing.simulation.kafka.groups.assignors import TopicIdPartition
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    CLIENT_HOST,
    ClassicGroupState,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import ConsumerMember
from aioproducer.testing.simulation.kafka.groups.consumer_protocol import by_topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.metadata import NO_AUTHORIZED_OPERATIONS

_FIRST_THAT_MISSES: Final = 6
_CONSUMER: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def list_groups(call: Call) -> Fields:
    """The groups that this broker coordinates."""
    states = {each.lower() for each in call.body.states_filter or ()}
    types = {each.lower() for each in call.body.types_filter or ()}
    rows = [
        _listed(each) for each in call.coordinators.groups.coordinated_by(call.broker, call.now)
    ]
    groups = [
        each
        for each in rows
        if (not states or each["group_state"].lower() in states)
        and (not types or each["group_type"] in types)
    ]
    return {"error_code": call.injected, "groups": groups}


def _listed(group: ClassicGroup | ConsumerGroup) -> Fields:
    if isinstance(group, ClassicGroup):
        state, kind, protocol = group.state.value, "classic", group.protocol_type or ""
    else:
        state, kind, protocol = group.state, _CONSUMER, _CONSUMER
    return {
        "group_id": group.group_id,
        "protocol_type": protocol,
        "group_state": state,
        "group_type": kind,
    }


# --- the classic protocol ----------------------------------------------------------------------


def describe_groups(call: Call) -> Fields:
    """Groups of the classic protocol by name."""
    return {"groups": [_classic(call, str(name)) for name in call.body.groups]}


def _classic(call: Call, name: str) -> Fields:
    row: dict[str, Any] = {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": name,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }
    if code := call.groups_error(name):
        return {**row, "error_code": code}
    group = call.coordinators.groups.find(name)
    if not isinstance(group, ClassicGroup):
        misses = call.version >= _FIRST_THAT_MISSES
        code = ErrorCode.GROUP_ID_NOT_FOUND if misses else ErrorCode.NONE
        return {**row, "error_code": code, "group_state": "Dead"}
    protocol = group.protocol if group.state is ClassicGroupState.STABLE else None
    return {
        **row,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": protocol or "",
        "members": [each.described(protocol) for each in group.members.values()],
    }


# --- the protocol of KIP-848 -------------------------------------------------------------------


def consumer_group_describe(call: Call) -> Fields:
    """Groups of the protocol of KIP-848 by name."""
    return {"groups": [_consumer(call, str(name)) for name in call.body.group_ids]}


def _consumer(call: Call, name: str) -> Fields:
    row: dict[str, Any] = {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": name,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }
    if code := call.groups_error(name):
        return {**row, "error_code": code}
    group = call.coordinators.groups.find(name)
    if not isinstance(group, ConsumerGroup):
        return {**row, "error_code": ErrorCode.GROUP_ID_NOT_FOUND}
    return {
        **row,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [_member(call, group, each) for each in group.members.values()],
    }


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> Fields:
    target = group.target.get(member.member_id, frozenset())
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": CLIENT_HOST,
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.regex,
        "assignment": _partitions(call, {**member.assigned, **member.revoked}),
        "target_assignment": _partitions(call, target),
        "member_type": _CLASSIC_MEMBER if member.classic else _CONSUMER_MEMBER,
    }


def _partitions(call: Call, partitions: Collection[TopicIdPartition]) -> Fields:
    rows = []
    for row in by_topic(partitions):
        topic = call.cluster.topic_by_id(row["topic_id"])
        if topic is not None:
            rows.append({**row, "topic_name": topic.name})
    return {"topic_partitions": rows}
