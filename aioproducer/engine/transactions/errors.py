"""The errors of calls that a transactional producer refuses, with advice. No I/O."""

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
    State.READY: "begin one: `async with producer.transaction():` or begin_transaction()",
    State.IN_TRANSACTION: "end it first: commit_transaction() or abort_transaction()",
    State.COMMITTING: "it can't be taken back: `await producer.commit_transaction()` to its end",
    State.ABORTING: "`await producer.abort_transaction()` to its end",
    State.ABORTABLE_ERROR: "abort_transaction(), then begin another one",
    State.FATAL_ERROR: "close the producer",
}

MISUSE: Final = (
    SerializationError,
    InvalidTopicError,
    InvalidPartitionError,
    InvalidTimestampError,
)
"""The errors about wrong arguments of ``send()``: Java throws them, too, and the transaction
continues without the record."""

DELIBERATE: Final = (TransactionAbortedError, ProducerClosedError, ProducerBrokenError)
"""The errors of records that were discarded on purpose, or that nobody is there to send."""


def is_fatal(error: ProducerError) -> bool:
    """True if no transaction of the producer survives a batch that failed with ``error``."""
    if isinstance(error, KafkaError) and error.disposition is Disposition.FATAL:
        return True
    return isinstance(error, UnsupportedVersionError)


def is_its_own(error: ProducerError) -> bool:
    """True if a record failed with ``error`` by itself, and not because its transaction ended."""
    return not isinstance(error, (*DELIBERATE, FatalTransactionError)) and not is_fatal(error)


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
        unknown = ". An earlier request had no response, so the commit may have been done"
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
    return IllegalStateError(f"{subject}: this producer {did}, which has ended; make another one")


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
        "takes part may have committed it (or nobody has written anything)"
    )
    error.__cause__ = cause
    return error
