"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. Source: Kafka's ``KafkaApis``."""

from __future__ import annotations

from typing import Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.transaction_coordinator import Identity

_FIRST_INIT_WITH_FENCED: Final = 4
_FIRST_WITH_FENCED: Final = 2
_FIRST_END_WITH_BUMP: Final = 5
_NONE: Final = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def init_producer_id(call: Call) -> Fields:
    """A producer id with its epoch."""
    body = call.body
    expected = (
        body.producer_id,
        body.producer_epoch,
    )
    if expected != _NONE and NO_PRODUCER_ID in expected:  # both numbers for none are -1
        answer = Identity(ErrorCode.INVALID_REQUEST)
    elif body.transactional_id is None:
        answer = Identity(call.injected)
        if not call.injected:
            answer = Identity(ErrorCode.NONE, call.cluster.new_producer_id(), 0)
    else:
        answer = _initialized(call, None if expected == _NONE else expected)
    return _identified(_for_version(call, answer.code, _FIRST_INIT_WITH_FENCED), answer)


def _initialized(call: Call, expected: tuple[int, int] | None) -> Identity:
    transactional_id = str(call.body.transactional_id)
    timeout_ms = call.body.transaction_timeout_ms
    if not transactional_id:
        return Identity(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= call.cluster.options.transaction_max_timeout_ms:
        return Identity(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if code := call.transactions_error(transactional_id):
        return Identity(code)
    return call.coordinators.transactions.initialize(
        transactional_id, timeout_ms, expected, call.now
    )


def end_txn(call: Call) -> Fields:
    """Commit or abort; from version 5 on with a new epoch (KIP-890)."""
    body = call.body
    transactional_id = str(body.transactional_id)
    transactions = call.coordinators.transactions
    code = call.transactions_error(transactional_id)
    answer = Identity(code)
    if not code:
        answer = transactions.end(
            transactional_id,
            body.producer_id,
            body.producer_epoch,
            commit=body.committed,
            version=2 if call.version >= _FIRST_END_WITH_BUMP else 1,
            now=call.now,
        )
    return _identified(_for_version(call, answer.code, _FIRST_WITH_FENCED), answer)


def add_partitions_to_txn(call: Call) -> Fields:
    """Partitions that the transaction will write to."""
    body = call.body
    asked = [
        TopicPartition(str(topic.name), int(number))
        for topic in body.v3_and_below_topics
        for number in topic.partitions
    ]
    missing = [each for each in asked if call.cluster.partition(*each) is None]
    codes = dict.fromkeys(asked, ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes |= dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not missing:
        code = _add(
            call,
            str(body.v3_and_below_transactional_id),
            (body.v3_and_below_producer_id, body.v3_and_below_producer_epoch),
            asked,
        )
        codes = dict.fromkeys(asked, code)
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {
                        "partition_index": number,
                        "partition_error_code": codes[TopicPartition(str(topic.name), number)],
                    }
                    for number in topic.partitions
                ],
            }
            for topic in body.v3_and_below_topics
        ]
    }


def add_offsets_to_txn(call: Call) -> Fields:
    """A group whose offsets the transaction will commit."""
    body = call.body
    partition = call.coordinators.groups.partition_of(str(body.group_id)).where
    code = _add(
        call,
        str(body.transactional_id),
        (body.producer_id, body.producer_epoch),
        [partition],
    )
    return {"error_code": code}


def _add(
    call: Call, transactional_id: str, identity: tuple[int, int], partitions: list[TopicPartition]
) -> ErrorCode:
    transactions = call.coordinators.transactions
    code = call.transactions_error(transactional_id)
    if not code:
        code = transactions.add_partitions(
            transactional_id, *identity, partitions, version=1, now=call.now
        )
    return _for_version(call, code, _FIRST_WITH_FENCED)


def _for_version(call: Call, code: ErrorCode, first: int) -> ErrorCode:
    """Versions before ``first`` don't know PRODUCER_FENCED."""
    if code == ErrorCode.PRODUCER_FENCED and call.version < first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _identified(code: ErrorCode, answer: Identity) -> Fields:
    return {
        "error_code": code,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.epoch,
    }
