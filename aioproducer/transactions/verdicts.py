"""The meaning of a coordinator's answer: one table. No I/O.

Source: ``handleResponse`` of the request handlers in Kafka 4's ``TransactionManager``. Where Kafka
calls an error fatal that the next transaction can survive (offsets that are refused, a transaction
that is not open any more), it is abortable here, and the abort finds out the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from aioproducer.errors import (
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    NotCoordinatorError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
    UnknownServerError,
    explain,
    kafka_error,
)
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


class Verdict(Enum):
    """The next step of a question that was answered."""

    DONE = "done"
    AGAIN = "again"
    """The error may pass: ask the same question after a backoff."""
    SOON = "soon"
    """The coordinator still ends the transaction before, which takes milliseconds."""
    ELSEWHERE = "elsewhere"
    """Another broker is the coordinator, or will be: find it first."""
    ABORTABLE = "abortable"
    """The transaction can only be aborted."""
    FENCED = "fenced"
    """A newer producer has the transactional id, or the coordinator ended the transaction."""
    FATAL = "fatal"
    """The producer itself is refused."""


_Table: TypeAlias = Mapping[type[KafkaError], Verdict]

ALWAYS: Final[_Table] = {
    CoordinatorNotAvailableError: Verdict.ELSEWHERE,
    NotCoordinatorError: Verdict.ELSEWHERE,
    ConcurrentTransactionsError: Verdict.SOON,
    TransactionAbortableError: Verdict.ABORTABLE,
    UnknownProducerIdError: Verdict.ABORTABLE,
    GroupAuthorizationFailedError: Verdict.ABORTABLE,
    InvalidGroupIdError: Verdict.ABORTABLE,
    ProducerFencedError: Verdict.FENCED,
    InvalidProducerEpochError: Verdict.FENCED,
    InvalidProducerIdMappingError: Verdict.FATAL,
    TransactionalIdAuthorizationFailedError: Verdict.FATAL,
    ClusterAuthorizationFailedError: Verdict.FATAL,
}
"""The verdicts by error, for every question."""

BY_QUESTION: Final[Mapping[type[Question], _Table]] = {
    FindCoordinator: {
        CoordinatorNotAvailableError: Verdict.AGAIN,
        NotCoordinatorError: Verdict.AGAIN,
    },
    InitProducerId: {
        TransactionAbortableError: Verdict.FATAL,
        UnknownProducerIdError: Verdict.FATAL,
    },
    AddPartitions: {InvalidTxnStateError: Verdict.FATAL},
    AddOffsets: {InvalidTxnStateError: Verdict.FATAL},
    CommitOffsets: {RequestTimedOutError: Verdict.ELSEWHERE},
    FetchOffsets: {},
    EndTransaction: {
        InvalidTxnStateError: Verdict.ABORTABLE,
        # It leaves open what became of the transaction, and the same end may be asked for twice. A
        # coordinator answers so, for one, while it fences the producer (Kafka 4.3).
        UnknownServerError: Verdict.AGAIN,
    },
}
"""The verdicts by error that depend on the question."""

OTHERWISE: Final[Mapping[type[Question], Verdict]] = {
    FindCoordinator: Verdict.FATAL,
    InitProducerId: Verdict.FATAL,
    AddPartitions: Verdict.ABORTABLE,
    AddOffsets: Verdict.ABORTABLE,
    CommitOffsets: Verdict.ABORTABLE,
    EndTransaction: Verdict.FATAL,
    FetchOffsets: Verdict.ABORTABLE,
}
"""The verdict on an error that is in no table, unless Kafka calls it retriable."""


_TOPIC_REFUSED: Final = 29
"""Kafka's code of ``TOPIC_AUTHORIZATION_FAILED``."""


def error_in(question: Question, answer: Answer, who: str, where: str) -> KafkaError | None:
    """The error that the broker ``where`` answered ``who`` with, if it was one."""
    if not answer.error_code:
        return None
    label = type(question).__name__
    if (group := _group_of(question)) is not None:
        label = f"{label} of group {group!r}"
    if answer.place is not None:
        label = f"{label} for {answer.place}"
    said = explain(answer.error_code, answer.message or _advice(question, answer.error_code))
    return kafka_error(answer.error_code, f"{who}{label} on {where}: {said}")


def _group_of(question: Question) -> str | None:
    match question:
        case FindCoordinator(Coordinator(CoordinatorType.GROUP, group_id)):
            return group_id
        case CommitOffsets(_, group):
            return group.group_id
        case AddOffsets(group_id) | FetchOffsets(group_id):
            return group_id
    return None


def _advice(question: Question, code: int) -> str | None:
    """The advice on offsets, if it is another one than for records."""
    if code != _TOPIC_REFUSED or not isinstance(question, CommitOffsets | FetchOffsets):
        return None
    operation = "READ" if isinstance(question, CommitOffsets) else "DESCRIBE"
    return f"the principal needs the {operation} permission for the topic"


def judge(question: Question, error: KafkaError | None) -> Verdict:
    """The verdict on ``question`` after it was answered with ``error``."""
    if error is None:
        return Verdict.DONE
    kind = type(error)
    verdict = BY_QUESTION[type(question)].get(kind) or ALWAYS.get(kind)
    if verdict is None:
        verdict = Verdict.AGAIN if error.retriable else OTHERWISE[type(question)]
    return verdict
