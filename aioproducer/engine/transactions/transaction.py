"""One transaction, from its begin to its end, and the states of the producer. No I/O.

:data:`TRANSITIONS` is the table of states and of the events that lead from one to another; the
diagram in ``docs/explanation/architecture.md`` is drawn from it. A :class:`Transaction` knows its
partitions, groups and offsets, and those that wait to be added.

Source: the ``State`` of Kafka's ``TransactionManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    TxnOffsetCommit,
)
from aioproducer.errors import ProducerError
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)


class TransactionState(Enum):
    """The states of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    """The coordinator is asked for the producer id and a new epoch."""
    READY = "ready"
    """No transaction is open."""
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    """The open transaction can only be aborted."""
    FATAL_ERROR = "fatal error"
    """There will be no transaction any more."""


State = TransactionState

TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionState, str]]] = {
    State.UNINITIALIZED: {
        State.INITIALIZING: "init_transactions()",
    },
    State.INITIALIZING: {
        State.READY: "producer id and epoch assigned",
        State.FATAL_ERROR: "refused",
    },
    State.READY: {
        State.IN_TRANSACTION: "begin_transaction()",
        State.INITIALIZING: "begin_transaction(shared=True) in an epoch that was used",
        State.FATAL_ERROR: "another cluster replaced the producer's",
    },
    State.IN_TRANSACTION: {
        State.COMMITTING: "commit_transaction()",
        State.ABORTING: "abort_transaction()",
        State.ABORTABLE_ERROR: "a record or a request failed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.COMMITTING: {
        State.READY: "committed",
        State.INITIALIZING: "committed, and a new epoch is needed",
        State.ABORTABLE_ERROR: "a record or a request failed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.ABORTABLE_ERROR: {
        State.ABORTING: "abort_transaction()",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.ABORTING: {
        State.READY: "aborted",
        State.INITIALIZING: "aborted, and a new epoch is needed",
        State.FATAL_ERROR: "fenced or refused",
    },
    State.FATAL_ERROR: {},
}
"""The events that lead from a state to another one; there are no other ways."""


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.UNINITIALIZED.name}"]
    for source, targets in TRANSITIONS.items():
        lines += [f"    {source.name} --> {target.name}: {why}" for target, why in targets.items()]
    return "\n".join(lines)


@dataclass(slots=True, eq=False, repr=False)
class Ending:
    """A requested commit or abort. It outlives the transaction, until its caller knows of it."""

    committed: bool
    done: bool = False
    error: ProducerError | None = None
    """The reason that it was not done."""
    may_be_done: bool = False
    """A sent EndTxn got no response, or one that leaves the outcome open: the end may be done in
    spite of an error."""
    acknowledged: bool = False
    """True if the caller knows the outcome; otherwise the next call reports it."""

    @property
    def open(self) -> bool:
        """True while it has no outcome."""
        return not self.done and self.error is None

    def fail(self, error: ProducerError) -> None:
        """Close it with ``error``, unless it has an outcome."""
        if self.open:
            self.error = error


@dataclass(slots=True, eq=False, repr=False)
class PendingOffsets:
    """Consumed offsets that are to be written."""

    request: TxnOffsetCommit
    written: bool = False


class Transaction:
    """The content of one transaction of ``producer``.

    ``handed_out``: other producers have its handle.
    """

    def __init__(
        self, producer: TransactionHandle, *, shared: bool, handed_out: bool = False
    ) -> None:
        self.shared = shared
        """Others may write into the transaction too."""
        self.handed_out = handed_out
        self.error: ProducerError | None = None
        """The reason that the transaction can only be aborted."""
        self._producer = producer
        self._partitions: set[TopicPartition] = set()
        self._partitions_to_add: set[TopicPartition] = set()
        """The partitions that AddPartitionsToTxn will name (version 1)."""
        self._groups: set[str] = set()
        self._offsets: list[PendingOffsets] = []
        self._known = False
        """The coordinator may know of the transaction."""

    def contains(self, topic_partition: TopicPartition) -> bool:
        """True if ``topic_partition`` is in the transaction."""
        return topic_partition in self._partitions

    @property
    def has_pending_offsets(self) -> bool:
        """True if consumed offsets are not written yet."""
        return bool(self._offsets)

    @property
    def needs_end(self) -> bool:
        """True if a request, or perhaps another producer, has registered it at the coordinator."""
        return self._known or self.handed_out

    @property
    def leaves_epoch_used(self) -> bool:
        """True if the end leaves an epoch in which others have numbered batches."""
        return self.handed_out and self._producer.version == 1

    def add_partition(self, topic_partition: TopicPartition) -> bool:
        """Let batches into a partition: True if they may leave now, False if it is added first.

        In version 2 of the protocol the first batch adds its partition to the transaction.
        """
        if topic_partition in self._partitions:
            return True
        if self._producer.version == 1:
            self._partitions_to_add.add(topic_partition)
            return False
        self._partitions.add(topic_partition)
        return True

    def add_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        topic_ids: Mapping[str, UUID],
    ) -> PendingOffsets:
        """Write ``offsets`` in the transaction."""
        request = TxnOffsetCommit(offsets, group, topic_ids, producer=self._producer)
        pending = PendingOffsets(request)
        self._offsets.append(pending)
        return pending

    def discard_pending(self) -> None:
        """Add no more partitions and write no more offsets: the transaction is aborted."""
        self._partitions_to_add.clear()
        self._offsets.clear()

    # --- requests --------------------------------------------------------------------------

    def next_request(self) -> CoordinatorRequest | None:
        """The next request that adds or writes something."""
        if self._partitions_to_add:
            return AddPartitionsToTxn(frozenset(self._partitions_to_add), producer=self._producer)
        if not self._offsets:
            return None
        request = self._offsets[0].request
        group_id = request.group.group_id
        added = self._producer.version > 1 or group_id in self._groups
        return request if added else AddOffsetsToTxn(group_id, producer=self._producer)

    def sent(self, request: CoordinatorRequest) -> None:
        """``request`` is on its way."""
        if isinstance(request, AddPartitionsToTxn | AddOffsetsToTxn | TxnOffsetCommit):
            self._known = True

    def succeeded(self, request: CoordinatorRequest) -> None:
        """A coordinator has done ``request``."""
        match request:
            case AddPartitionsToTxn(partitions):
                self._partitions |= partitions
                self._partitions_to_add -= partitions
            case AddOffsetsToTxn(group_id):
                self._groups.add(group_id)
            case TxnOffsetCommit():
                for pending in [each for each in self._offsets if each.request is request]:
                    pending.written = True
                    self._offsets.remove(pending)
