"""What each answer of a coordinator means, beside what Kafka's producer makes of it.

Written by hand from ``handleResponse`` of the sent handlers in Kafka 4's ``TransactionManager``,
and from its consumer's ``OffsetFetchResponseHandler``, where only the call fails that is ABORT
here; which codes there are, from ``KafkaApis``, ``TransactionCoordinator`` and
``GroupCoordinator``.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from aioproducer.engine.transactions.requests import (
    COMMON_REACTIONS,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Coordinator,
    CoordinatorRequest,
    CoordinatorType,
    EndTxn,
    FindCoordinator,
    OffsetFetch,
    Reaction,
    Response,
    TxnOffsetCommit,
)
from aioproducer.errors import kafka_error
from aioproducer.errors.broker import RETRIABLE, ErrorCode
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tests.support.world import FENCE, PAYMENTS

RETRY, RETRY_SOON, FIND_AGAIN = Reaction.RETRY, Reaction.RETRY_SOON, Reaction.FIND_COORDINATOR
ABORT, FENCED, FATAL = Reaction.ABORT, Reaction.FENCED, Reaction.FATAL

ORDERS = TopicPartition("orders", 0)
FIND = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
PARTITIONS = AddPartitionsToTxn(frozenset({ORDERS}), producer=PAYMENTS)
GROUP = AddOffsetsToTxn("readers", producer=PAYMENTS)
OFFSETS = TxnOffsetCommit(
    {ORDERS: OffsetAndMetadata(7)}, ConsumerGroupMetadata("readers"), producer=PAYMENTS
)
FETCH = OffsetFetch("readers", frozenset({ORDERS}))
COMMIT_IT = EndTxn(committed=True, producer=PAYMENTS)
ABORT_IT = EndTxn(committed=False, producer=PAYMENTS)


class Case(NamedTuple):
    """An answer, what Kafka's producer does, and what we do where that is something else."""

    sent: CoordinatorRequest
    code: ErrorCode
    kafka: Reaction
    ours: Reaction
    why: str = ""

    def __str__(self) -> str:
        return f"{type(self.sent).__name__}-{self.code.name}"


def same(sent: CoordinatorRequest, kafka: Reaction, *names: str) -> list[Case]:
    return [Case(sent, ErrorCode[name.upper()], kafka, kafka) for name in names]


def differs(
    sent: CoordinatorRequest, kafka: Reaction, ours: Reaction, why: str, *names: str
) -> list[Case]:
    return [Case(sent, ErrorCode[name.upper()], kafka, ours, why) for name in names]


SOONER = "Kafka shortens the backoff of the first AddPartitionsToTxn alone"
SURVIVED = "the next transaction can survive it"
NOT_KNOWN = "it is not known what became of the transaction, and asking again tells"
REFUSED = "a principal without the right gets no transaction, now or later"
LOOKED_FOR = "as with every other sent: the coordinator may be another one by then"
NEWS = "the broker may not have heard of it yet"

CASES = [
    # FindCoordinatorHandler
    *same(FIND, RETRY, "coordinator_load_in_progress", "coordinator_not_available"),
    *same(FIND, RETRY, "not_coordinator", "request_timed_out"),
    *same(FIND, FATAL, "transactional_id_authorization_failed"),
    *same(FIND, FATAL, "invalid_request", "unknown_server_error", "unsupported_version"),
    *same(FIND, ABORT, "group_authorization_failed", "transaction_abortable"),
    *differs(FIND, FATAL, ABORT, SURVIVED, "invalid_group_id"),
    # InitProducerIdHandler
    *same(FENCE, FIND_AGAIN, "not_coordinator", "coordinator_not_available"),
    *same(FENCE, RETRY, "coordinator_load_in_progress", "request_timed_out"),
    *same(FENCE, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(FENCE, FATAL, "invalid_transaction_timeout", "invalid_request", "unknown_server_error"),
    *same(FENCE, FATAL, "invalid_producer_id_mapping", "invalid_txn_state", "unknown_producer_id"),
    *differs(FENCE, RETRY, RETRY_SOON, SOONER, "concurrent_transactions"),
    *differs(
        FENCE,
        ABORT,
        FATAL,
        REFUSED,
        "transactional_id_authorization_failed",
        "cluster_authorization_failed",
    ),
    *differs(FENCE, ABORT, FATAL, "there is no transaction to abort yet", "transaction_abortable"),
    # AddPartitionsToTxnHandler
    *same(PARTITIONS, FIND_AGAIN, "not_coordinator", "coordinator_not_available"),
    *same(PARTITIONS, RETRY_SOON, "concurrent_transactions"),
    *same(PARTITIONS, RETRY, "coordinator_load_in_progress", "unknown_topic_or_partition"),
    *same(PARTITIONS, RETRY, "request_timed_out"),
    *same(PARTITIONS, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(PARTITIONS, FATAL, "transactional_id_authorization_failed", "invalid_txn_state"),
    *same(PARTITIONS, FATAL, "invalid_producer_id_mapping"),
    *same(PARTITIONS, ABORT, "topic_authorization_failed", "operation_not_attempted"),
    *same(PARTITIONS, ABORT, "unknown_producer_id", "transaction_abortable"),
    *same(PARTITIONS, ABORT, "invalid_topic_exception", "unknown_server_error"),
    *same(PARTITIONS, ABORT, "invalid_request"),
    # AddOffsetsToTxnHandler
    *same(GROUP, FIND_AGAIN, "not_coordinator", "coordinator_not_available"),
    *same(GROUP, RETRY, "coordinator_load_in_progress", "request_timed_out"),
    *same(GROUP, ABORT, "unknown_producer_id", "transaction_abortable"),
    *same(GROUP, ABORT, "group_authorization_failed"),
    *same(GROUP, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(GROUP, FATAL, "transactional_id_authorization_failed", "invalid_txn_state"),
    *same(GROUP, FATAL, "invalid_producer_id_mapping"),
    *differs(GROUP, RETRY, RETRY_SOON, SOONER, "concurrent_transactions"),
    *differs(
        GROUP,
        FATAL,
        ABORT,
        SURVIVED,
        "unknown_server_error",
        "invalid_request",
        "invalid_group_id",
    ),
    # TxnOffsetCommitHandler
    *same(OFFSETS, FIND_AGAIN, "not_coordinator", "coordinator_not_available"),
    *same(OFFSETS, FIND_AGAIN, "request_timed_out"),
    *same(OFFSETS, RETRY, "coordinator_load_in_progress", "unknown_topic_or_partition"),
    *same(OFFSETS, ABORT, "group_authorization_failed", "fenced_instance_id"),
    *same(OFFSETS, ABORT, "unknown_member_id", "illegal_generation", "transaction_abortable"),
    *same(OFFSETS, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(OFFSETS, FATAL, "transactional_id_authorization_failed", "invalid_producer_id_mapping"),
    *differs(OFFSETS, RETRY, RETRY_SOON, SOONER, "concurrent_transactions"),
    *differs(
        OFFSETS,
        FATAL,
        ABORT,
        SURVIVED,
        "unsupported_for_message_format",
        "topic_authorization_failed",
        "offset_metadata_too_large",
        "invalid_commit_offset_size",
        "invalid_group_id",
        "rebalance_in_progress",
        "stale_member_epoch",
        "invalid_txn_state",
        "unknown_producer_id",
        "unknown_server_error",
        "invalid_request",
    ),
    # OffsetFetchResponseHandler
    *same(FETCH, FIND_AGAIN, "not_coordinator"),
    *same(FETCH, RETRY, "coordinator_load_in_progress", "unstable_offset_commit"),
    *same(FETCH, RETRY, "request_timed_out"),
    *same(FETCH, ABORT, "group_authorization_failed", "topic_authorization_failed"),
    *same(FETCH, ABORT, "unknown_member_id", "stale_member_epoch", "invalid_group_id"),
    *same(FETCH, ABORT, "group_id_not_found", "unknown_server_error", "invalid_request"),
    *differs(FETCH, RETRY, FIND_AGAIN, LOOKED_FOR, "coordinator_not_available"),
    *differs(FETCH, ABORT, RETRY, NEWS, "unknown_topic_or_partition"),
    # EndTxnHandler
    *[
        each
        for end in (COMMIT_IT, ABORT_IT)
        for each in (
            *same(end, FIND_AGAIN, "not_coordinator", "coordinator_not_available"),
            *same(end, RETRY, "coordinator_load_in_progress", "request_timed_out"),
            *same(end, FENCED, "invalid_producer_epoch", "producer_fenced"),
            *same(end, FATAL, "transactional_id_authorization_failed"),
            *same(end, FATAL, "invalid_producer_id_mapping", "invalid_request"),
            *differs(end, FATAL, RETRY, NOT_KNOWN, "unknown_server_error"),
            *same(end, ABORT, "unknown_producer_id", "transaction_abortable"),
            *differs(end, RETRY, RETRY_SOON, SOONER, "concurrent_transactions"),
            *differs(
                end, FATAL, ABORT, "it is not open any more: " + SURVIVED, "invalid_txn_state"
            ),
        )
    ],
]
REQUESTS = [FIND, FENCE, PARTITIONS, GROUP, OFFSETS, FETCH, COMMIT_IT, ABORT_IT]


def name_of(sent: CoordinatorRequest) -> str:
    return sent.describe()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_broker_can_answer(case: Case) -> None:
    error = kafka_error(case.code, "said")
    assert case.sent.reaction_to(error) is case.ours
    assert bool(case.why) is (case.ours is not case.kafka), "a difference has its reason"


@pytest.mark.parametrize("sent", REQUESTS, ids=name_of)
def test_without_an_error_it_is_done(sent: CoordinatorRequest) -> None:
    assert sent.reaction_to(None) is Reaction.DONE


@pytest.mark.parametrize("sent", REQUESTS, ids=name_of)
@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_whatever_kafka_calls_retriable_is_asked_again_and_nothing_else(
    code: ErrorCode, sent: CoordinatorRequest
) -> None:
    ended = isinstance(sent, EndTxn)
    if not code or (ended and code is ErrorCode.UNKNOWN_SERVER_ERROR):
        return
    reaction = sent.reaction_to(kafka_error(code, "said"))
    assert reaction is not Reaction.DONE
    assert (reaction in (RETRY, RETRY_SOON, FIND_AGAIN)) is (code in RETRIABLE)


@pytest.mark.parametrize("sent", REQUESTS, ids=name_of)
def test_a_code_of_a_newer_kafka_ends_what_kafka_ends_for_an_unexpected_one(
    sent: CoordinatorRequest,
) -> None:
    assert sent.reaction_to(kafka_error(9999, "said")) is sent.otherwise


def test_the_tables_say_nothing_twice() -> None:
    for each in REQUESTS:
        for error, reaction in each.reactions.items():
            kind = type(each)
            assert COMMON_REACTIONS.get(error, each.otherwise) is not reaction, (kind, error)
            known = error in COMMON_REACTIONS
            assert reaction is not (RETRY if error.retriable and not known else None), (kind, error)


@pytest.mark.parametrize(
    ("sent", "right"),
    [(GROUP, "READ"), (OFFSETS, "READ"), (FETCH, "DESCRIBE"), (FIND, "DESCRIBE")],
)
def test_a_refusal_names_the_group_and_the_right_that_is_missing(
    sent: CoordinatorRequest, right: str
) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED.value
    error = sent.error_in(Response(code), "transactional id 'mine': ", "broker 1")
    label = type(sent).__name__
    assert str(error) == (
        f"transactional id 'mine': {label} of group 'readers' on broker 1: "
        f"GROUP_AUTHORIZATION_FAILED: the principal needs the {right} permission for the group"
        + (", which READ includes" if right == "DESCRIBE" else "")
    )


@pytest.mark.parametrize(("sent", "right"), [(OFFSETS, "READ"), (FETCH, "DESCRIBE")])
def test_offsets_of_a_refused_topic_need_another_right_than_records(
    sent: CoordinatorRequest, right: str
) -> None:
    place = TopicPartition("orders", 0)
    answer = Response(ErrorCode.TOPIC_AUTHORIZATION_FAILED.value, partition=place)
    error = sent.error_in(answer, "", "broker 1")
    assert f"the principal needs the {right} permission for the topic" in str(error)
    assert "of group 'readers' for orders-0 on broker 1: TOPIC_AUTH" in str(error)
    inside = PARTITIONS.error_in(answer, "", "broker 1")
    assert "needs the WRITE permission for the topic" in str(inside)
