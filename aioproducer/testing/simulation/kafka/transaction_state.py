"""A coordinator's knowledge of one transactional id, and the transitions of its state.

Sources: Kafka's ``TransactionState`` and ``TransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH: Final = 2**15 - 1


class TransactionState(Enum):
    """The states by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


_ENDED: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)

PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _ENDED,
    TransactionState.ONGOING: _ENDED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    TransactionState.PREPARE_ABORT: _ENDED | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
}
"""The states that may come before each one. Only version 2 aborts what has not begun."""


def exhausted(epoch: int) -> bool:
    """True if the epoch is the last that a producer may have; one more is kept for fencing."""
    return epoch >= MAX_EPOCH - 1


@dataclass
class TransactionMetadata:
    """One transactional id."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The one that follows after the end of the transaction, when the epochs are used up."""
    epoch: int = NO_PRODUCER_EPOCH
    last_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    started_at: float = -1.0
    version: int = 0
    """Of the protocol, as the client spoke it last."""

    @property
    def completing(self) -> bool:
        """True from the end of a transaction until its markers are written.

        Source: ``pendingTransitionInProgress``. A coordinator prepares the completion before it
        answers EndTxn, and again when it loads its log.
        """
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def exhausted(self) -> bool:
        """Source: ``isProducerEpochExhausted``."""
        return exhausted(self.epoch)

    def transit(self, state: TransactionState, *, producer_id: int | None = None) -> None:
        """Go on to ``state``; the present producer id becomes the previous one."""
        if self.state not in PREVIOUS_STATES[state]:
            raise AssertionError(f"{self.transactional_id} can't go from {self.state} to {state}")
        self.previous_producer_id = self.producer_id
        self.state = state
        if producer_id is not None:
            self.producer_id = producer_id

    def initialize(self, timeout_ms: int, expected_epoch: int | None) -> bool:
        """Begin a new epoch; False: ``expected_epoch`` is fenced.

        Source: ``prepareIncrementProducerEpoch``.
        """
        if expected_epoch is None:
            self.epoch, self.last_epoch = self.epoch + 1, NO_PRODUCER_EPOCH
        elif self.epoch == NO_PRODUCER_EPOCH or expected_epoch == self.epoch:
            self.epoch, self.last_epoch = self.epoch + 1, self.epoch
        elif expected_epoch != self.last_epoch:  # else it is a repeated request
            return False
        self._emptied(timeout_ms)
        return True

    def rotate(self, producer_id: int, timeout_ms: int, *, keep_last_epoch: bool) -> None:
        """Continue with another producer id. Source: ``prepareProducerIdRotation``."""
        self.last_epoch = self.epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        self.epoch = 0
        self._emptied(timeout_ms, producer_id)

    def _emptied(self, timeout_ms: int, producer_id: int | None = None) -> None:
        self.transit(TransactionState.EMPTY, producer_id=producer_id)
        self.timeout_ms = timeout_ms
        self.partitions = set()
        self.started_at = -1.0

    def add(self, partitions: set[TopicPartition], version: int, now: float) -> None:
        """Take partitions into the transaction. Source: ``prepareAddPartitions``."""
        if self.state is not TransactionState.ONGOING:
            self.started_at = now
        self.transit(TransactionState.ONGOING)
        self.partitions |= partitions
        self.version = version

    def fence(self) -> None:
        """Take away the epoch of a producer; with version 2, :meth:`prepare` does it.

        Source: ``prepareFenceProducerEpoch``.
        """
        self.epoch = min(self.epoch + 1, MAX_EPOCH)
        self.last_epoch = NO_PRODUCER_EPOCH

    def prepare(self, state: TransactionState, version: int, next_producer_id: int) -> None:
        """Begin to end the transaction; with version 2 in a new epoch.

        Source: ``prepareAbortOrCommit``.
        """
        if version >= 2:
            self.last_epoch = self.epoch
            self.epoch = min(self.epoch + 1, MAX_EPOCH)
        self.transit(state)
        self.version = version
        self.next_producer_id = next_producer_id

    def complete(self) -> None:
        """All markers are written. Source: ``prepareComplete``."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        follows: int | None = None
        if self.version >= 2 and self.next_producer_id != NO_PRODUCER_ID:
            follows, self.epoch = self.next_producer_id, 0
        self.next_producer_id = NO_PRODUCER_ID
        self.partitions = set()
        self.transit(
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            producer_id=follows,
        )
