"""The reactions to responses of coordinators, and to the errors of all requests. No I/O.

Source: the request handlers in Kafka 4's ``TransactionManager``. Some errors are fatal for Kafka
though the next transaction can survive them (refused offsets, a transaction that is not open any
more). They are abortable here, and the abort finds out the truth.
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
    KafkaError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
)


class Reaction(Enum):
    """The producer's reaction to a response."""

    DONE = "done"
    RETRY = "retry"
    """The error may pass: the request is sent again after a backoff."""
    RETRY_SOON = "retry soon"
    """The coordinator still ends the transaction before, which takes milliseconds."""
    FIND_COORDINATOR = "find coordinator"
    """Another broker is the coordinator, or will be: it is looked for before the retry."""
    ABORT = "abort"
    """The transaction can only be aborted."""
    FENCED = "fenced"
    """A newer producer has the transactional id, or the coordinator ended the transaction."""
    FATAL = "fatal"
    """The producer itself is refused."""


Reactions: TypeAlias = Mapping[type[KafkaError], Reaction]

COMMON_REACTIONS: Final[Reactions] = {
    CoordinatorNotAvailableError: Reaction.FIND_COORDINATOR,
    NotCoordinatorError: Reaction.FIND_COORDINATOR,
    ConcurrentTransactionsError: Reaction.RETRY_SOON,
    TransactionAbortableError: Reaction.ABORT,
    UnknownProducerIdError: Reaction.ABORT,
    GroupAuthorizationFailedError: Reaction.ABORT,
    InvalidGroupIdError: Reaction.ABORT,
    ProducerFencedError: Reaction.FENCED,
    InvalidProducerEpochError: Reaction.FENCED,
    InvalidProducerIdMappingError: Reaction.FATAL,
    TransactionalIdAuthorizationFailedError: Reaction.FATAL,
    ClusterAuthorizationFailedError: Reaction.FATAL,
}
"""The reactions to errors of every request; a request's own table goes before."""
