"""Requests of groups: their members, their offsets, and their descriptions.

JoinGroup, SyncGroup, Heartbeat and LeaveGroup of the classic protocol; ConsumerGroupHeartbeat of
KIP-848; OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit; ListGroups, DescribeGroups,
ConsumerGroupDescribe and DeleteGroups. Sources: Kafka's ``GroupCoordinatorService`` and
``KafkaApis``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.batch import transactional_batch
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.groups import ClassicGroup, ConsumerGroup, Reply
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    CLIENT_HOST,
    ClassicGroupState,
)
from aioproducer.testing.simulation.kafka.groups.consumer_group import (
    ASSIGNORS,
    ConsumerMember,
    TopicIdPartition,
)
from aioproducer.testing.simulation.kafka.groups.consumer_protocol import by_topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.metadata import (
    NO_AUTHORIZED_OPERATIONS,
    topic_of,
)

_FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
_FIRST_SYNC_WITH_PROTOCOL: Final = 5
_FIRST_LEAVE_OF_SEVERAL: Final = 3


def join_group(call: Call) -> Answer:
    """Join a group; answered when all members have joined."""
    body = call.body
    code = _refuses(call)
    if not call.injected and code != ErrorCode.INVALID_GROUP_ID:
        options = call.cluster.options
        least, most = (
            options.group_min_session_timeout_ms,
            options.group_max_session_timeout_ms,
        )
        if not least <= body.session_timeout_ms <= most:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
    if code:
        return _fit(call, {"error_code": code, "member_id": body.member_id, "protocol_name": None})
    reply = call.coordinators.groups.join(call.request, call.now)
    return _later(reply, lambda fields: _fit(call, fields))


def _fit(call: Call, joined: Fields) -> Fields:
    """Older clients get an empty name of a protocol in place of none."""
    if call.version >= _FIRST_JOIN_WITHOUT_PROTOCOL or joined["protocol_name"] is not None:
        return joined
    return {**joined, "protocol_name": ""}


def sync_group(call: Call) -> Answer:
    """The member's part of the assignment; answered when the leader has handed it in."""
    body = call.body
    code = call.injected
    if call.version >= _FIRST_SYNC_WITH_PROTOCOL and None in (
        body.protocol_type,
        body.protocol_name,
    ):
        code = code or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    code = code or _refuses(call)
    if code:
        return {"error_code": code}
    return _later(call.coordinators.groups.sync(call.request, call.now), lambda fields: fields)


def _later(reply: Reply, fit: Callable[[Fields], Fields]) -> Answer:
    """The answer, now or when other members have done their part."""

    if reply.fields is not None:
        return fit(reply.fields)
    return Parked(lambda _: None if reply.fields is None else fit(reply.fields))


def heartbeat(call: Call) -> Answer:
    """A member lives; told of a rebalance."""
    code = _refuses(call)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return {"error_code": ErrorCode.NONE}
    return {"error_code": code or call.coordinators.groups.heartbeat(call.body, call.now)}


def leave_group(call: Call) -> Answer:
    """Leave a group."""
    body = call.body
    members = body.members
    if call.version < _FIRST_LEAVE_OF_SEVERAL:
        identity = request_schema(Api.LEAVE_GROUP).MemberIdentity
        members = (identity(member_id=body.member_id, group_instance_id=None),)
    if code := _refuses(call):
        return {"error_code": code, "members": ()}
    codes = call.coordinators.groups.leave(str(body.group_id), members, call.now)
    if call.version < _FIRST_LEAVE_OF_SEVERAL:
        return {"error_code": codes[0]}
    return {
        "error_code": ErrorCode.NONE,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": code,
            }
            for each, code in zip(members, codes, strict=True)
        ],
    }


def _refuses(call: Call) -> ErrorCode:
    """Why this broker does not answer about a group's members."""
    if not call.injected and not call.body.group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.groups_error(str(call.body.group_id))


_FIRST_WITHOUT_GIVEN_IDS: Final = 1
_LEAST_EPOCH: Final = -2


def consumer_group_heartbeat(call: Call) -> Answer:
    """A member joins, lives, or leaves."""
    code = call.injected or _invalid(call.body, call.version)
    code = code or call.groups_error(str(call.body.group_id))
    if code:
        return {"error_code": code}
    return call.coordinators.groups.consumer_heartbeat(call.request, call.now)


def _invalid(body: Any, version: int) -> ErrorCode:
    """Why a request makes no sense. Source: ``throwIfConsumerGroupHeartbeatRequestIsInvalid``."""
    epoch = body.member_epoch
    needs_id = version >= _FIRST_WITHOUT_GIVEN_IDS or epoch > 0 or epoch == -1
    if (
        (needs_id and not body.member_id)
        or not body.group_id
        or body.instance_id == ""
        or body.rack_id == ""
        or epoch < _LEAST_EPOCH
        or (epoch == 0 and _incomplete(body))
        or (epoch == _LEAST_EPOCH and body.instance_id is None)
    ):
        return ErrorCode.INVALID_REQUEST
    if body.server_assignor is not None and body.server_assignor not in ASSIGNORS:
        return ErrorCode.UNSUPPORTED_ASSIGNOR
    return ErrorCode.NONE


def _incomplete(body: Any) -> bool:
    """True if a join leaves something out, or names partitions."""
    return (
        body.rebalance_timeout_ms == -1
        or body.topic_partitions is None
        or len(body.topic_partitions) > 0
        or (body.subscribed_topic_names is None and body.subscribed_topic_regex is None)
    )


_FIRST_FETCH_OF_MANY: Final = 8
_FIRST_FETCH_OF_MEMBERS: Final = 9
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS_OFFSETS: Final = 5


def offset_commit(call: Call) -> Fields:
    """Offsets of a member, or of a consumer that assigns its partitions itself."""
    group = str(call.body.group_id)
    code = call.groups_error(group)
    offsets, codes = _offsets(call)
    groups = call.coordinators.groups
    refused = dict.fromkeys(offsets, code)
    if offsets and not code:
        refused = groups.refused_offsets(call.request, offsets, call.now, transactional=False)
    if offsets and not refused:
        groups.offsets.commit(group, offsets)
    codes |= refused
    return {"topics": _rows(call, codes)}


def txn_offset_commit(call: Call) -> Fields:
    """Offsets that count once a transaction is committed."""
    group = str(call.body.group_id)
    code = call.groups_error(group)
    code = code or _verified(call)
    offsets, codes = _offsets(call)
    groups = call.coordinators.groups
    refused = dict.fromkeys(offsets, code)
    if offsets and not code:
        refused = groups.refused_offsets(call.request, offsets, call.now, transactional=True)
        if not refused and (code := _append(call)):
            refused = dict.fromkeys(offsets, code)
    if offsets and not refused:
        groups.offsets.commit_in_transaction(group, call.body.producer_id, offsets)
    codes |= refused
    return {"topics": _rows(call, codes)}


def _verified(call: Call) -> ErrorCode:
    """Source: ``CoordinatorRuntime.scheduleTransactionalWriteOperation``."""
    body = call.body
    partition = call.coordinators.groups.partition_of(str(body.group_id))
    if partition.producers.has_transaction(body.producer_id, body.producer_epoch):
        return ErrorCode.NONE
    code = call.coordinators.transactions.verify(
        str(body.transactional_id),
        body.producer_id,
        body.producer_epoch,
        [partition.where],
        add=call.version >= _FIRST_THAT_ADDS_OFFSETS,
        now=call.now,
    )[partition.where]
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if call.version < _FIRST_WITH_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.NETWORK_EXCEPTION:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code


def _append(call: Call) -> ErrorCode:
    """The offsets' place in the log of the groups."""
    body = call.body
    partition = call.coordinators.groups.partition_of(str(body.group_id))
    entry = partition.producers.entries.get(body.producer_id)
    if entry is not None and body.producer_epoch < entry.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    partition.append_of_coordinator(
        transactional_batch(
            body.producer_id, body.producer_epoch, str(body.group_id).encode(), call.now_ms
        )
    )
    call.cluster.replicate(partition, call.now)
    return ErrorCode.NONE


def _offsets(
    call: Call,
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
    """The offsets of partitions that exist, and the codes of all."""
    offsets, codes = {}, {}
    for asked in call.body.topics:
        topic, missing = topic_of(call, asked)
        name = _name(call, asked)
        for each in asked.partitions:
            where = TopicPartition(name, each.partition_index)
            codes[where] = ErrorCode.NONE
            if topic is None or where.partition >= len(topic.partitions):
                codes[where] = missing
                continue
            epoch = each.committed_leader_epoch
            offsets[where] = OffsetAndMetadata(
                each.committed_offset, each.committed_metadata or "", None if epoch < 0 else epoch
            )
    return offsets, codes


def _rows(call: Call, codes: dict[TopicPartition, ErrorCode]) -> list[Fields]:
    return [
        {
            "name": name,
            **_id(asked),
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": codes[TopicPartition(name, each.partition_index)],
                }
                for each in asked.partitions
            ],
        }
        for asked, name in ((each, _name(call, each)) for each in call.body.topics)
    ]


def _id(asked: Any) -> Fields:
    """The id of a topic, in an answer to a request that has ids in some version."""
    return {"topic_id": asked.topic_id} if "topic_id" in asked._fields else {}


def _name(call: Call, asked: Any) -> str:
    """The name of a topic that is asked for by name or id; an unknown id has none."""
    topic, _ = topic_of(call, asked)
    return asked.name if topic is None else topic.name


def offset_fetch(call: Call) -> Fields:
    """The committed offsets of groups."""
    body = call.body
    stable = body.require_stable
    if call.version >= _FIRST_FETCH_OF_MANY:
        return {"groups": [_group(call, each, stable=stable) for each in body.groups]}
    found = dict(_group(call, body, stable=stable))
    del found["group_id"]
    return found


def _group(call: Call, asked: Any, *, stable: bool) -> Fields:
    groups = call.coordinators.groups
    group = str(asked.group_id)
    code = call.groups_error(group)
    if not code and call.version >= _FIRST_FETCH_OF_MEMBERS:
        code = groups.refuses_fetch(group, asked.member_id, asked.member_epoch)
    if code:
        return {"group_id": group, "topics": [], "error_code": code}
    known = groups.offsets.committed.get(group, {})
    if asked.topics is None:
        topics = _all_topics(call, known)
    else:
        topics = [(each.name, each.partition_indexes) for each in asked.topics]
    rows = []
    for name, numbers in topics:
        partitions = []
        for number in numbers:
            where = TopicPartition(name, number)
            found, code = known.get(where), ErrorCode.NONE
            if stable and groups.offsets.unstable(group, where):
                found, code = None, ErrorCode.UNSTABLE_OFFSET_COMMIT
            partitions.append(_fetched(number, found, code))
        rows.append({"name": name, "partitions": partitions})
    return {"group_id": group, "topics": rows, "error_code": ErrorCode.NONE}


def _all_topics(
    call: Call, known: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[tuple[str, Sequence[int]]]:
    """The topics that a group has offsets of, and their partitions."""
    numbers: dict[str, list[int]] = {}
    for where in known:
        if where.topic in call.cluster.topics:
            numbers.setdefault(where.topic, []).append(where.partition)
    return list(numbers.items())


def _fetched(number: int, found: OffsetAndMetadata | None, code: ErrorCode) -> Fields:
    epoch = -1 if found is None or found.leader_epoch is None else found.leader_epoch
    return {
        "partition_index": number,
        "committed_offset": -1 if found is None else found.offset,
        "committed_leader_epoch": epoch,
        "metadata": "" if found is None else found.metadata,
        "error_code": code,
    }


def offset_delete(call: Call) -> Fields:
    """Forget offsets, but not those of topics that members read."""
    groups, group = call.coordinators.groups, str(call.body.group_id)
    if code := call.groups_error(group) or groups.refuses_removal(group, of_group=False):
        return {"error_code": code, "topics": []}
    subscribed = groups.subscribed_topics(group)
    codes = {}
    for asked in call.body.topics:
        for each in asked.partitions:
            where = TopicPartition(asked.name, each.partition_index)
            codes[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if asked.name in subscribed:
                codes[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif call.cluster.partition(*where) is not None:
                codes[where] = ErrorCode.NONE
                groups.offsets.committed.get(group, {}).pop(where, None)
    return {"error_code": ErrorCode.NONE, "topics": _rows(call, codes)}


def delete_groups(call: Call) -> Fields:
    """Forget groups without members, and their offsets."""
    groups, rows = call.coordinators.groups, []
    for group in map(str, call.body.groups_names):
        code = call.groups_error(group) or groups.refuses_removal(group, of_group=True)
        if not code:
            groups.remove(group)
        rows.append({"group_id": group, "error_code": code, "error_message": None})
    return {"results": rows}


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
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return {**row, "error_code": code, "error_message": f"Group {name} not found."}
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
