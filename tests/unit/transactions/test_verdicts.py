"""What each answer of a coordinator means, beside what Kafka's producer makes of it.

Written by hand from ``handleResponse`` of the request handlers in Kafka 4's ``TransactionManager``,
and from its consumer's ``OffsetFetchResponseHandler``, where only the call fails that is ABORTABLE
here; which codes there are, from ``KafkaApis``, ``TransactionCoordinator`` and
``GroupCoordinator``.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from aioproducer.errors import kafka_error
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from aioproducer.transactions.questions import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    Coordinator,
    CoordinatorType,
    EndTransaction,
    FetchOffsets,
    FindCoordinator,
    InitProducerId,
    Question,
)
from aioproducer.transactions.verdicts import (
    ALWAYS,
    BY_QUESTION,
    OTHERWISE,
    Verdict,
    error_in,
    judge,
)

AGAIN, SOON, ELSEWHERE = Verdict.AGAIN, Verdict.SOON, Verdict.ELSEWHERE
ABORTABLE, FENCED, FATAL = Verdict.ABORTABLE, Verdict.FENCED, Verdict.FATAL

ORDERS = TopicPartition("orders", 0)
FIND = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
INIT = InitProducerId(keep=False)
PARTITIONS = AddPartitions(frozenset({ORDERS}))
GROUP = AddOffsets("readers")
OFFSETS = CommitOffsets({ORDERS: OffsetAndMetadata(7)}, ConsumerGroupMetadata("readers"))
FETCH = FetchOffsets("readers", frozenset({ORDERS}))
COMMIT, ABORT = EndTransaction(committed=True), EndTransaction(committed=False)


class Case(NamedTuple):
    """An answer, what Kafka's producer does, and what we do where that is something else."""

    question: Question
    code: ErrorCode
    kafka: Verdict
    ours: Verdict
    why: str = ""

    def __str__(self) -> str:
        return f"{type(self.question).__name__}-{self.code.name}"


def same(question: Question, kafka: Verdict, *names: str) -> list[Case]:
    return [Case(question, ErrorCode[name], kafka, kafka) for name in names]


def differs(question: Question, kafka: Verdict, ours: Verdict, why: str, *names: str) -> list[Case]:
    return [Case(question, ErrorCode[name], kafka, ours, why) for name in names]


SOONER = "Kafka shortens the backoff of the first AddPartitionsToTxn alone"
SURVIVED = "the next transaction can survive it"
NOT_KNOWN = "it is not known what became of the transaction, and asking again tells"
REFUSED = "a principal without the right gets no transaction, now or later"
LOOKED_FOR = "as with every other question: the coordinator may be another one by then"
NEWS = "the broker may not have heard of it yet"

CASES = [
    # FindCoordinatorHandler
    *same(FIND, AGAIN, "coordinator_load_in_progress", "coordinator_not_available"),
    *same(FIND, AGAIN, "not_coordinator", "request_timed_out"),
    *same(FIND, FATAL, "transactional_id_authorization_failed"),
    *same(FIND, FATAL, "invalid_request", "unknown_server_error", "unsupported_version"),
    *same(FIND, ABORTABLE, "group_authorization_failed", "transaction_abortable"),
    *differs(FIND, FATAL, ABORTABLE, SURVIVED, "invalid_group_id"),
    # InitProducerIdHandler
    *same(INIT, ELSEWHERE, "not_coordinator", "coordinator_not_available"),
    *same(INIT, AGAIN, "coordinator_load_in_progress", "request_timed_out"),
    *same(INIT, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(INIT, FATAL, "invalid_transaction_timeout", "invalid_request", "unknown_server_error"),
    *same(INIT, FATAL, "invalid_producer_id_mapping", "invalid_txn_state", "unknown_producer_id"),
    *differs(INIT, AGAIN, SOON, SOONER, "concurrent_transactions"),
    *differs(
        INIT,
        ABORTABLE,
        FATAL,
        REFUSED,
        "transactional_id_authorization_failed",
        "cluster_authorization_failed",
    ),
    *differs(
        INIT, ABORTABLE, FATAL, "there is no transaction to abort yet", "transaction_abortable"
    ),
    # AddPartitionsToTxnHandler
    *same(PARTITIONS, ELSEWHERE, "not_coordinator", "coordinator_not_available"),
    *same(PARTITIONS, SOON, "concurrent_transactions"),
    *same(PARTITIONS, AGAIN, "coordinator_load_in_progress", "unknown_topic_or_partition"),
    *same(PARTITIONS, AGAIN, "request_timed_out"),
    *same(PARTITIONS, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(PARTITIONS, FATAL, "transactional_id_authorization_failed", "invalid_txn_state"),
    *same(PARTITIONS, FATAL, "invalid_producer_id_mapping"),
    *same(PARTITIONS, ABORTABLE, "topic_authorization_failed", "operation_not_attempted"),
    *same(PARTITIONS, ABORTABLE, "unknown_producer_id", "transaction_abortable"),
    *same(PARTITIONS, ABORTABLE, "invalid_topic_exception", "unknown_server_error"),
    *same(PARTITIONS, ABORTABLE, "invalid_request"),
    # AddOffsetsToTxnHandler
    *same(GROUP, ELSEWHERE, "not_coordinator", "coordinator_not_available"),
    *same(GROUP, AGAIN, "coordinator_load_in_progress", "request_timed_out"),
    *same(GROUP, ABORTABLE, "unknown_producer_id", "transaction_abortable"),
    *same(GROUP, ABORTABLE, "group_authorization_failed"),
    *same(GROUP, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(GROUP, FATAL, "transactional_id_authorization_failed", "invalid_txn_state"),
    *same(GROUP, FATAL, "invalid_producer_id_mapping"),
    *differs(GROUP, AGAIN, SOON, SOONER, "concurrent_transactions"),
    *differs(
        GROUP,
        FATAL,
        ABORTABLE,
        SURVIVED,
        "unknown_server_error",
        "invalid_request",
        "invalid_group_id",
    ),
    # TxnOffsetCommitHandler
    *same(OFFSETS, ELSEWHERE, "not_coordinator", "coordinator_not_available"),
    *same(OFFSETS, ELSEWHERE, "request_timed_out"),
    *same(OFFSETS, AGAIN, "coordinator_load_in_progress", "unknown_topic_or_partition"),
    *same(OFFSETS, ABORTABLE, "group_authorization_failed", "fenced_instance_id"),
    *same(OFFSETS, ABORTABLE, "unknown_member_id", "illegal_generation", "transaction_abortable"),
    *same(OFFSETS, FENCED, "invalid_producer_epoch", "producer_fenced"),
    *same(OFFSETS, FATAL, "transactional_id_authorization_failed", "invalid_producer_id_mapping"),
    *differs(OFFSETS, AGAIN, SOON, SOONER, "concurrent_transactions"),
    *differs(
        OFFSETS,
        FATAL,
        ABORTABLE,
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
    *same(FETCH, ELSEWHERE, "not_coordinator"),
    *same(FETCH, AGAIN, "coordinator_load_in_progress", "unstable_offset_commit"),
    *same(FETCH, AGAIN, "request_timed_out"),
    *same(FETCH, ABORTABLE, "group_authorization_failed", "topic_authorization_failed"),
    *same(FETCH, ABORTABLE, "unknown_member_id", "stale_member_epoch", "invalid_group_id"),
    *same(FETCH, ABORTABLE, "group_id_not_found", "unknown_server_error", "invalid_request"),
    *differs(FETCH, AGAIN, ELSEWHERE, LOOKED_FOR, "coordinator_not_available"),
    *differs(FETCH, ABORTABLE, AGAIN, NEWS, "unknown_topic_or_partition"),
    # EndTxnHandler
    *[
        each
        for end in (COMMIT, ABORT)
        for each in (
            *same(end, ELSEWHERE, "not_coordinator", "coordinator_not_available"),
            *same(end, AGAIN, "coordinator_load_in_progress", "request_timed_out"),
            *same(end, FENCED, "invalid_producer_epoch", "producer_fenced"),
            *same(end, FATAL, "transactional_id_authorization_failed"),
            *same(end, FATAL, "invalid_producer_id_mapping", "invalid_request"),
            *differs(end, FATAL, AGAIN, NOT_KNOWN, "unknown_server_error"),
            *same(end, ABORTABLE, "unknown_producer_id", "transaction_abortable"),
            *differs(end, AGAIN, SOON, SOONER, "concurrent_transactions"),
            *differs(
                end, FATAL, ABORTABLE, "it is not open any more: " + SURVIVED, "invalid_txn_state"
            ),
        )
    ],
]
QUESTIONS = [FIND, INIT, PARTITIONS, GROUP, OFFSETS, FETCH, COMMIT, ABORT]


def name_of(question: Question) -> str:
    return str(question)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_broker_can_answer(case: Case) -> None:
    error = kafka_error(case.code, "said")
    assert judge(case.question, error) is case.ours
    assert bool(case.why) is (case.ours is not case.kafka), "a difference has its reason"


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_without_an_error_it_is_done(question: Question) -> None:
    assert judge(question, None) is Verdict.DONE


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_whatever_kafka_calls_retriable_is_asked_again_and_nothing_else(
    code: ErrorCode, question: Question
) -> None:
    ended = isinstance(question, EndTransaction)
    if not code or (ended and code is ErrorCode.unknown_server_error):
        return
    verdict = judge(question, kafka_error(code, "said"))
    assert verdict is not Verdict.DONE
    assert (verdict in (AGAIN, SOON, ELSEWHERE)) is code.retriable


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_a_code_of_a_newer_kafka_ends_what_kafka_ends_for_an_unexpected_one(
    question: Question,
) -> None:
    assert judge(question, kafka_error(9999, "said")) is OTHERWISE[type(question)]


def test_the_tables_say_nothing_twice() -> None:
    for kind, table in BY_QUESTION.items():
        for error, verdict in table.items():
            assert ALWAYS.get(error, OTHERWISE[kind]) is not verdict, (kind, error)
            told = AGAIN if error.retriable and error not in ALWAYS else None
            assert verdict is not told, (kind, error)


@pytest.mark.parametrize("question", [GROUP, OFFSETS, FETCH, FIND], ids=name_of)
def test_a_refusal_names_the_group_and_the_right_that_is_missing(question: Question) -> None:
    code = ErrorCode.group_authorization_failed.value
    error = error_in(question, Answer(code), "transactional id 'mine': ", "broker 1")
    label = type(question).__name__
    assert str(error) == (
        f"transactional id 'mine': {label} of group 'readers' on broker 1: "
        "GROUP_AUTHORIZATION_FAILED: the principal needs the READ permission for the group "
        "(DESCRIBE is enough to look up its offsets)"
    )


@pytest.mark.parametrize(("question", "right"), [(OFFSETS, "READ"), (FETCH, "DESCRIBE")])
def test_offsets_of_a_refused_topic_need_another_right_than_records(
    question: Question, right: str
) -> None:
    place = TopicPartition("orders", 0)
    answer = Answer(ErrorCode.topic_authorization_failed.value, place=place)
    error = error_in(question, answer, "", "broker 1")
    assert str(error).endswith(f"the principal needs the {right} permission for the topic")
    assert "of group 'readers' for orders-0 on broker 1: TOPIC_AUTH" in str(error)
    inside = error_in(PARTITIONS, answer, "", "broker 1")
    assert "DESCRIBE and WRITE" in str(inside)
