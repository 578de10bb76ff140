"""What a failed record does to its transaction, and the errors of refused calls. No I/O.

The errors of requests to coordinators have their reactions in ``requests.py``.
"""

from __future__ import annotations

from typing import Final

from aioproducer.engine.transactions.transaction import Ending
from aioproducer.engine.transactions.transaction import TransactionState as State
from aioproducer.errors import (
    AbortableTransactionError,
    Disposition,
    FatalTransactionError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedVersionError,
)

_ADVICE: Final = {
    State.UNINITIALIZED: "`await producer.init_transactions()` first (start() does it)",
    State.INITIALIZING: "`await producer.init_transactions()` first (start() does it)",
    State.READY: (
        "begin_transaction() begins one, the block of transaction() begins one and ends it"
    ),
    State.IN_TRANSACTION: "end it first: commit_transaction() or abort_transaction()",
    State.COMMITTING: "it can't be undone: `await producer.commit_transaction()` until it ends",
    State.ABORTING: "`await producer.abort_transaction()` until it ends",
    State.ABORTABLE_ERROR: "abort_transaction(), then begin another one",
    State.FATAL_ERROR: "close the producer",
}

_MISUSE: Final = (
    SerializationError,
    InvalidTopicError,
    InvalidPartitionError,
    InvalidTimestampError,
)
"""The errors about wrong arguments of ``send()``."""

_DELIBERATE: Final = (TransactionAbortedError, ProducerClosedError, ProducerBrokenError)
"""The errors of records that were discarded on purpose, or that nobody is there to send."""


def state_after(error: ProducerError, *, refused: bool = False) -> State | None:
    """The state of a transaction with a record that failed with ``error``; None: it goes on.

    ``refused``: ``send()`` raised ``error`` instead of taking the record. After wrong arguments its
    caller may send another record instead. Any other refusal (no memory, too large) leaves a gap,
    so the transaction can't be committed. Source: ``KafkaProducer.doSend`` and
    ``TransactionManager.maybeTransitionToErrorState``.
    """
    if isinstance(error, _DELIBERATE) or (refused and isinstance(error, _MISUSE)):
        return None
    fatal = isinstance(error, KafkaError) and error.disposition is Disposition.FATAL
    if fatal or isinstance(error, UnsupportedVersionError):
        return State.FATAL_ERROR
    return State.ABORTABLE_ERROR


def is_its_own(error: ProducerError) -> bool:
    """True if a record failed with ``error`` by itself, and not because its transaction ended."""
    if isinstance(error, FatalTransactionError):
        return False
    return state_after(error) is State.ABORTABLE_ERROR


def wrong_state(subject: object, doing: str, state: State) -> IllegalStateError:
    """The error of a call that ``state`` does not allow."""
    now = "no transaction is open" if state is State.READY else state.value
    return IllegalStateError(f"{subject}: can't {doing}, {now}; {_ADVICE[state]}")


def abortable(subject: object, doing: str, cause: ProducerError) -> AbortableTransactionError:
    """The error of a call in a transaction that can only be aborted because of ``cause``."""
    error = AbortableTransactionError(
        f"{subject}: can't {doing}, the transaction can only be aborted: {cause}; "
        f"{_ADVICE[State.ABORTABLE_ERROR]}"
    )
    error.__cause__ = cause
    return error


def fatal(
    subject: object, doing: str, cause: ProducerError, ending: Ending | None
) -> FatalTransactionError:
    """The error of a call of a producer that is refused. ``ending``: its last commit or abort."""
    kind = ProducerFencedError if isinstance(cause, ProducerFencedError) else FatalTransactionError
    unknown = ""
    if ending is not None and ending.committed and ending.may_be_done and not ending.done:
        unknown = ". The outcome of an earlier attempt is unknown: the commit may have succeeded"
    error = kind(f"{subject}: can't {doing}: {cause}{unknown}; {_ADVICE[State.FATAL_ERROR]}")
    error.__cause__ = cause
    return error


def discarded(cause: ProducerError | None) -> TransactionAbortedError:
    """The error of unsent records whose transaction is aborted because of ``cause``."""
    why = "" if cause is None else f": {cause}"
    error = TransactionAbortedError(f"discarded, because its transaction is aborted{why}")
    error.__cause__ = cause
    return error


def joined_has_ended(subject: object, *, own: bool) -> IllegalStateError:
    """The error of a second transaction. ``own``: the producer began the first one itself."""
    did = "handed its transaction over" if own else "joined one transaction"
    return IllegalStateError(f"{subject}: this producer {did}, which has ended; create another one")


def not_shared(subject: object) -> IllegalStateError:
    """The error of handing out a transaction that was begun only for this producer."""
    return IllegalStateError(
        f"{subject}: the transaction was not begun for others; begin it with "
        "producer.transaction(shared=True)"
    )


def not_open(subject: object, cause: KafkaError) -> IllegalStateError:
    """The error of an abort of a shared transaction that the coordinator does not know."""
    error = IllegalStateError(
        f"{subject}: can't abort, the transaction is no longer open: another producer that "
        "joined it may have committed it (or none has written to it)"
    )
    error.__cause__ = cause
    return error
