"""OffsetCommit, OffsetFetch and TxnOffsetCommit. Source: Kafka's ``GroupCoordinatorService``."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.batch import transactional_batch
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.messages import Fields

_FIRST_FETCH_OF_MANY: Final = 8
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS_OFFSETS: Final = 5


def offset_commit(call: Call) -> Fields:
    """Offsets of a consumer that assigns its partitions itself."""
    group = str(call.body.group_id)
    code = call.groups_error(group)
    offsets, codes = _offsets(call, code)
    if not code:
        call.coordinators.groups.commit(group, offsets)
    return {"topics": _rows(call, codes)}


def txn_offset_commit(call: Call) -> Fields:
    """Offsets that count once a transaction is committed."""
    group = str(call.body.group_id)
    code = call.groups_error(group)
    code = code or _verified(call)
    offsets, codes = _offsets(call, code)
    if not code and offsets:
        code = _append(call)
        codes = {each: known or code for each, known in codes.items()}
    if not code:
        call.coordinators.groups.commit_in_transaction(group, call.body.producer_id, offsets)
    return {"topics": _rows(call, codes)}


def _verified(call: Call) -> ErrorCode:
    """Source: ``CoordinatorRuntime.scheduleTransactionalWriteOperation``."""
    body = call.body
    partition = call.coordinators.groups.partition_of(str(body.group_id))
    if partition.producers.has_transaction(body.producer_id, body.producer_epoch):
        return ErrorCode.none
    code = call.coordinators.transactions.verify(
        str(body.transactional_id),
        body.producer_id,
        body.producer_epoch,
        [partition.where],
        add=call.version >= _FIRST_THAT_ADDS_OFFSETS,
        now=call.now,
    )[partition.where]
    match code:
        case ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        case ErrorCode.transaction_abortable if call.version < _FIRST_WITH_ABORTABLE:
            return ErrorCode.invalid_txn_state
        case ErrorCode.network_exception:
            return ErrorCode.coordinator_load_in_progress
    return code


def _append(call: Call) -> ErrorCode:
    """The offsets' place in the log of the groups."""
    body = call.body
    partition = call.coordinators.groups.partition_of(str(body.group_id))
    entry = partition.producers.entries.get(body.producer_id)
    if entry is not None and body.producer_epoch < entry.epoch:
        return ErrorCode.invalid_producer_epoch
    partition.append_of_coordinator(
        transactional_batch(
            body.producer_id, body.producer_epoch, str(body.group_id).encode(), call.now_ms
        )
    )
    call.cluster.replicate(partition, call.now)
    return ErrorCode.none


def _offsets(
    call: Call, code: ErrorCode
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
    """The offsets of partitions that exist, and the codes of all."""
    offsets, codes = {}, {}
    for topic in call.body.topics:
        for each in topic.partitions:
            where = TopicPartition(str(topic.name), each.partition_index)
            codes[where] = code
            if call.cluster.partition(*where) is None:
                codes[where] = ErrorCode.unknown_topic_or_partition
                continue
            epoch = getattr(each, "committed_leader_epoch", -1)
            offsets[where] = OffsetAndMetadata(
                each.committed_offset, each.committed_metadata or "", None if epoch < 0 else epoch
            )
    return offsets, codes


def _rows(call: Call, codes: dict[TopicPartition, ErrorCode]) -> list[Fields]:
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": codes[TopicPartition(str(topic.name), each.partition_index)],
                }
                for each in topic.partitions
            ],
        }
        for topic in call.body.topics
    ]


def offset_fetch(call: Call) -> Fields:
    """The committed offsets of groups."""
    body = call.body
    stable = bool(getattr(body, "require_stable", False))
    if call.version >= _FIRST_FETCH_OF_MANY:
        return {"groups": [_group(call, each, stable=stable) for each in body.groups]}
    found = dict(_group(call, body, stable=stable))
    del found["group_id"]
    return found


def _group(call: Call, asked: Any, *, stable: bool) -> Fields:
    groups = call.coordinators.groups
    group = str(asked.group_id)
    if code := call.groups_error(group):
        return {"group_id": group, "topics": [], "error_code": code}
    known = groups.offsets.get(group, {})
    if asked.topics is None:
        places: dict[str, list[int]] = {}
        for where in known:
            places.setdefault(where.topic, []).append(where.partition)
    else:
        places = {str(each.name): list(each.partition_indexes) for each in asked.topics}
    topics = []
    for name, numbers in places.items():
        rows = []
        for number in numbers:
            where = TopicPartition(name, number)
            found = known.get(where)
            code = ErrorCode.none
            if stable and groups.unstable(group, where):
                found, code = None, ErrorCode.unstable_offset_commit
            rows.append(_fetched(number, found, code))
        topics.append({"name": name, "partitions": rows})
    return {"group_id": group, "topics": topics, "error_code": ErrorCode.none}


def _fetched(number: int, found: OffsetAndMetadata | None, code: ErrorCode) -> Fields:
    epoch = -1 if found is None or found.leader_epoch is None else found.leader_epoch
    return {
        "partition_index": number,
        "committed_offset": -1 if found is None else found.offset,
        "committed_leader_epoch": epoch,
        "metadata": "" if found is None else found.metadata,
        "error_code": code,
    }
