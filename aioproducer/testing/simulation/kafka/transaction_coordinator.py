"""The coordinators of transactions: epochs, open transactions, their ends and markers.

Sources: Kafka's ``TransactionCoordinator``, ``TransactionStateManager``,
``TransactionMarkerChannelManager``, ``TransactionState`` and ``TransactionMetadata``. A
transactional id belongs to the broker that leads its partition of ``__transaction_state``. A
coordinator's decisions are in the replicated log of that partition, so the next coordinator knows
them once it has read the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    control_batch,
)
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, TRANSACTIONS_TOPIC, Cluster
from aioproducer.testing.simulation.kafka.groups import GroupCoordinator
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition

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


_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Identity(NamedTuple):
    """The answer to who a producer is."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class TransactionCoordinator:
    """All transactional ids of a cluster."""

    def __init__(self, cluster: Cluster, groups: GroupCoordinator) -> None:
        self._cluster = cluster
        self._groups = groups
        self.transactions: dict[str, TransactionMetadata] = {}

    # --- who coordinates -------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> Partition:
        """The partition whose leader coordinates ``transactional_id``."""
        return self._cluster.coordinator_partition(TRANSACTIONS_TOPIC, transactional_id)

    def refuses(self, broker: int, transactional_id: str, now: float) -> ErrorCode:
        """Why ``broker`` does not answer for ``transactional_id``; ``none``: it does."""
        return self.partition_of(transactional_id).coordinates(broker, now)

    # --- InitProducerId --------------------------------------------------------------------

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        now: float,
    ) -> Identity:
        """A producer id and epoch. Source: ``prepareInitProducerIdTransit``.

        ``expected``: the id and epoch that the producer has (KIP-360).
        """
        known = self.transactions.get(transactional_id)
        if known is None:
            known = TransactionMetadata(
                transactional_id, self._cluster.new_producer_id(), timeout_ms
            )
            self.transactions[transactional_id] = known
        if known.completing:
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _is_valid(known, *expected):
            return Identity(ErrorCode.PRODUCER_FENCED)
        if known.state is TransactionState.ONGOING:
            self._fence(known, now)
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        expected_epoch = None if expected is None else expected[1]
        if known.exhausted and expected_epoch in (None, known.epoch):
            known.rotate(
                self._cluster.new_producer_id(), timeout_ms, keep_last_epoch=expected is not None
            )
        elif not known.initialize(timeout_ms, expected_epoch):
            return Identity(ErrorCode.PRODUCER_FENCED)
        return Identity(ErrorCode.NONE, known.producer_id, known.epoch)

    # --- partitions of a transaction -------------------------------------------------------

    def _known(
        self, transactional_id: str, producer_id: int, epoch: int
    ) -> tuple[TransactionMetadata | None, ErrorCode]:
        known = self.transactions.get(transactional_id)
        if not transactional_id:
            return None, ErrorCode.INVALID_REQUEST
        if known is None or known.producer_id != producer_id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if known.epoch != epoch:
            return None, ErrorCode.PRODUCER_FENCED
        if known.completing:
            return None, ErrorCode.CONCURRENT_TRANSACTIONS
        return known, ErrorCode.NONE

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        version: int,
        now: float,
    ) -> ErrorCode:
        """Source: ``handleAddPartitionsToTransaction``. A completion comes before all checks."""
        present = self.transactions.get(transactional_id)
        if present is not None and present.completing:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        known, code = self._known(transactional_id, producer_id, epoch)
        if known is None:
            return code
        begins = known.state is not TransactionState.ONGOING
        if begins or not known.partitions.issuperset(partitions):
            known.add(set(partitions), version, now)
        if begins:
            self._expire_later(known)
        return ErrorCode.NONE

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
        now: float,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether a produce request may write; ``add``: it joins the partitions itself (KIP-890).

        Sources: ``AddPartitionsToTxnManager``, ``handleVerifyPartitionsInTransaction``.
        """
        code = self._unreachable(transactional_id, now)
        if not code and add:
            code = self.add_partitions(
                transactional_id, producer_id, epoch, partitions, version=2, now=now
            )
        known = None
        if not code:
            known, code = self._known(transactional_id, producer_id, epoch)
        if known is None:
            return dict.fromkeys(partitions, code)
        return {
            each: ErrorCode.NONE if each in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def _unreachable(self, transactional_id: str, now: float) -> ErrorCode:
        """Why another broker gets no answer from the coordinator."""
        partition = self.partition_of(transactional_id)
        if partition.leader == NO_LEADER:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if partition.leader not in self._cluster.alive:
            return ErrorCode.NETWORK_EXCEPTION
        return partition.coordinates(partition.leader, now)

    # --- ends of transactions --------------------------------------------------------------

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        version: int,
        now: float,
    ) -> Identity:
        """Commit or abort. Source: ``handleEndTransaction``."""
        if not transactional_id:
            return Identity(ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(transactional_id)
        if known is None:
            return Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if version >= 2:
            return self._end_with_bump(known, producer_id, epoch, commit=commit, now=now)
        if known.producer_id != producer_id:
            return Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != epoch:
            return Identity(ErrorCode.PRODUCER_FENCED)
        if known.completing:
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            return self._prepare(known, commit=commit, version=version, now=now)
        return self._repeated(known, commit=commit)

    def _end_with_bump(
        self, known: TransactionMetadata, producer_id: int, epoch: int, *, commit: bool, now: float
    ) -> Identity:
        """Version 2 of the protocol: each end brings a new epoch. Source: ``endTransaction``.

        A completion comes before all checks: the producer may have the epoch that follows already,
        or even the producer id.
        """
        if known.completing:
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        overflowed = (
            known.previous_producer_id == producer_id and exhausted(epoch) and known.epoch == 0
        )
        if known.producer_id != producer_id and not overflowed:
            return Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        repeated = overflowed or known.epoch == epoch + 1
        if known.epoch != epoch and not (repeated and known.state in _COMPLETE):
            return Identity(ErrorCode.PRODUCER_FENCED)
        if repeated:
            return self._repeated(known, commit=commit)
        if known.state is TransactionState.ONGOING or not commit:
            return self._prepare(known, commit=commit, version=2, now=now)
        return Identity(ErrorCode.INVALID_TXN_STATE)

    def _repeated(self, known: TransactionMetadata, *, commit: bool) -> Identity:
        """The end of a transaction that is not open: the same end once more, or a wrong one."""
        ended = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        if known.state is not ended:
            return Identity(ErrorCode.INVALID_TXN_STATE)
        return Identity(ErrorCode.NONE, known.producer_id, known.epoch)

    def _prepare(
        self, known: TransactionMetadata, *, commit: bool, version: int, now: float
    ) -> Identity:
        following = NO_PRODUCER_ID
        if version >= 2 and known.exhausted:
            following = self._cluster.new_producer_id()
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        known.prepare(state, version, following)
        answer = Identity(ErrorCode.NONE, known.producer_id, known.epoch)
        if following != NO_PRODUCER_ID:
            answer = Identity(ErrorCode.NONE, following, 0)
        self._write_markers(known, now)
        return answer

    def _fence(self, known: TransactionMetadata, now: float) -> None:
        """Abort an open transaction, and fence its producer."""
        version = self._cluster.options.transaction_version
        if version < 2:
            known.fence()
        known.prepare(TransactionState.PREPARE_ABORT, version, NO_PRODUCER_ID)
        self._write_markers(known, now)

    def time_out(self, transactional_id: str, now: float) -> None:
        """Abort an open transaction as if it had reached its time."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.state is TransactionState.ONGOING:
            self._fence(known, now)

    def _expire_later(self, known: TransactionMetadata) -> None:
        """Source: ``abortTimedOutTransactions``, which runs every now and then."""
        started = known.started_at
        check = self._cluster.drawn((0.0, self._cluster.options.transaction_timeout_check))

        def expire(now: float) -> None:
            if known.state is not TransactionState.ONGOING or known.started_at != started:
                return
            if self._unreachable(known.transactional_id, now):
                self._cluster.schedule.at(
                    now + self._cluster.options.transaction_timeout_check, expire
                )
            else:
                self._fence(known, now)

        self._cluster.schedule.at(started + known.timeout_ms / 1000 + check, expire)

    # --- markers ---------------------------------------------------------------------------

    def _write_markers(self, known: TransactionMetadata, now: float) -> None:
        if not known.partitions:
            known.complete()
        for where in sorted(known.partitions):
            self._write_marker_later(known, where, now)

    def _write_marker_later(
        self, known: TransactionMetadata, where: TopicPartition, now: float
    ) -> None:
        def write(time: float) -> None:
            partition = self._cluster.partition(*where)
            if partition is not None and (
                self._unreachable(known.transactional_id, time)
                or partition.leader not in self._cluster.alive
                or partition.lacks_replicas(-1)
            ):
                self._write_marker_later(known, where, time)
                return
            if partition is not None and self._write_marker(known, partition, time):
                self._await_replicas(known, partition, time)
            else:
                self._marked(known, where)

        self._cluster.schedule.at(now + self._cluster.drawn(self._cluster.options.markers), write)

    def _await_replicas(self, known: TransactionMetadata, partition: Partition, now: float) -> None:
        """A marker is written with ``acks=all``, and again if its leader is replaced before."""
        written = partition.leader, partition.leader_epoch, partition.log.end_offset

        def look(time: float) -> None:
            code = partition.reached(*written)
            if code is None:
                later(time)
            elif code:
                self._write_marker_later(known, partition.where, time)
            else:
                self._marked(known, partition.where)

        def later(time: float) -> None:
            pause = self._cluster.drawn(self._cluster.options.replication)
            self._cluster.schedule.at(time + pause, look)

        look(now)

    @staticmethod
    def _marked(known: TransactionMetadata, where: TopicPartition) -> None:
        known.partitions.discard(where)
        if not known.partitions:
            known.complete()

    def _write_marker(self, known: TransactionMetadata, partition: Partition, now: float) -> bool:
        """Append the marker; False: it is refused."""
        commit = known.state is TransactionState.PREPARE_COMMIT
        epoch = self.partition_of(known.transactional_id).leader_epoch
        marker = control_batch(
            known.producer_id,
            known.epoch,
            commit=commit,
            coordinator_epoch=epoch,
            now_ms=int(now * 1000),
        )
        code = partition.producers.refuses_marker(
            known.producer_id, known.epoch, epoch, known.version
        )
        if code:
            return False
        partition.append_marker(marker, commit=commit, coordinator_epoch=epoch)
        if partition.where.topic == GROUPS_TOPIC:
            self._groups.end_transaction(partition.where, known.producer_id, commit=commit)
        self._cluster.replicate(partition, now)
        return True


def _is_valid(known: TransactionMetadata, producer_id: int, epoch: int) -> bool:
    """Whether a producer may keep its id."""
    return (
        known.epoch == NO_PRODUCER_EPOCH
        or producer_id == known.producer_id
        or (producer_id == known.previous_producer_id and exhausted(epoch))
    )
