"""OffsetCommit, OffsetFetch and TxnOffsetCommit. Source: Kafka's ``GroupCoordinatorService``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.batch import transactional_batch
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.leaders import topic_of

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
