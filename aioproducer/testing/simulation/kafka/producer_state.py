"""The producers that a partition knows: epochs, sequence numbers and open transactions.

Sources: Kafka's ``ProducerStateManager``, ``ProducerStateEntry``, ``ProducerAppendInfo`` and
``VerificationStateEntry``. All of it follows from the log, so a leader with another log
computes it again; only verification is kept separately.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Batch,
    increment_sequence,
)

BATCHES_TO_RETAIN: Final = 5


class BatchMetadata(NamedTuple):
    """A batch that a producer wrote."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class AbortedTransaction(NamedTuple):
    """The view of a consumer with ``read_committed``. Source: ``AbortedTxn``."""

    first_offset: int
    producer_id: int
    last_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer id. Source: ``ProducerStateEntry``."""

    epoch: int = NO_PRODUCER_EPOCH
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    coordinator_epoch: int = -1
    transaction_start: int | None = None
    """The first offset of the open transaction."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def take_epoch(self, epoch: int) -> None:
        """Source: ``maybeUpdateProducerEpoch``."""
        if self.epoch != epoch:
            self.batches.clear()
            self.epoch = epoch


@dataclass(slots=True)
class Verification:
    """A transactional producer that the coordinator is asked about. Source: KIP-890."""

    epoch: int
    lowest_sequence: int
    adds_partitions: bool
    """The producer speaks version 2 of the protocol for transactions."""


class ProducerStates:
    """The producers of one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.aborted: list[AbortedTransaction] = []
        """By the last offset. Source: ``TransactionIndex``."""
        self._verifications: dict[int, Verification] = {}
        self._unreplicated: list[tuple[int, int]] = []
        """First and last offset of the ended transactions above the high watermark."""

    # --- verification ----------------------------------------------------------------------

    def has_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if the producer has an open transaction here; else the coordinator is asked."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_start is not None and entry.epoch == epoch

    def start_verification(self, batch: Batch, *, adds_partitions: bool) -> Verification:
        """Source: ``maybeCreateVerificationStateEntry``."""
        known = self._verifications.get(batch.producer_id)
        if known is None:
            known = Verification(batch.producer_epoch, batch.base_sequence, adds_partitions)
            self._verifications[batch.producer_id] = known
        elif batch.producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, batch.base_sequence)
        return known

    # --- what may be appended --------------------------------------------------------------

    def duplicate_of(self, batch: Batch) -> BatchMetadata | None:
        """The batch that ``batch`` repeats, if it is one of the last five."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        for known in entry.batches:
            if (known.first_sequence, known.last_sequence) == wanted:
                return known
        return None

    def refuses(self, batch: Batch, verified: Verification | None) -> ErrorCode:
        """The reason why a client may not append ``batch``; ``none``: it may.

        Sources: ``UnifiedLog.analyzeAndValidateProducerState``, ``ProducerAppendInfo``.
        """
        verification = self._verifications.get(batch.producer_id)
        entry = self.entries.get(batch.producer_id) or ProducerEntry()
        if (
            batch.transactional
            and not self.has_transaction(batch.producer_id, batch.producer_epoch)
            and (verified is None or verified is not verification)
        ):
            return ErrorCode.INVALID_TXN_STATE
        if batch.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if not self._in_sequence(batch, entry, verification):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry.transaction_start is not None and not batch.transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def _in_sequence(
        self, batch: Batch, entry: ProducerEntry, verification: Verification | None
    ) -> bool:
        """Source: ``ProducerAppendInfo.checkSequence``."""
        first = batch.base_sequence
        if verification is not None:
            if verification.adds_partitions and first != 0 and not entry.batches:
                return False
            if first > verification.lowest_sequence:
                return False
        if (
            entry.epoch == NO_PRODUCER_EPOCH
        ):  # nothing is known: any sequence number may be the first
            return True
        if batch.producer_epoch != entry.epoch:
            return first == 0
        return first == _after(entry.last_sequence)

    # --- what was appended -----------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Take notice of a data batch in the log. Source: ``ProducerStateManager.update``."""
        entry = self.entries.setdefault(batch.producer_id, ProducerEntry())
        entry.take_epoch(batch.producer_epoch)
        entry.batches.append(
            BatchMetadata(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
            )
        )
        if batch.transactional and entry.transaction_start is None:
            entry.transaction_start = batch.base_offset
        self._verifications.pop(batch.producer_id, None)

    def refuses_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> ErrorCode:
        """Why a marker may not be appended. Source: ``ProducerAppendInfo.appendEndTxnMarker``."""
        entry = self.entries.get(producer_id) or ProducerEntry()
        repeated = epoch == entry.epoch and entry.transaction_start is None
        if epoch < entry.epoch or (
            transaction_version >= 2 and epoch == entry.epoch and not repeated
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def end_transaction(self, marker: Batch, *, commit: bool, coordinator_epoch: int) -> None:
        """Take notice of a marker in the log."""
        entry = self.entries.setdefault(marker.producer_id, ProducerEntry())
        entry.take_epoch(marker.producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        if (start := entry.transaction_start) is not None:
            entry.transaction_start = None
            self._unreplicated.append((start, marker.base_offset))
            if not commit:
                insort(
                    self.aborted,
                    AbortedTransaction(start, marker.producer_id, marker.base_offset),
                    key=lambda each: each.last_offset,
                )
        self._verifications.pop(marker.producer_id, None)

    # --- transactions ----------------------------------------------------------------------

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset whose transaction is open, or has its end above the high watermark."""
        self._unreplicated = [each for each in self._unreplicated if each[1] >= high_watermark]
        open_ones = [
            each.transaction_start
            for each in self.entries.values()
            if each.transaction_start is not None
        ]
        return min([*open_ones, *(first for first, _ in self._unreplicated)], default=None)

    def aborted_between(self, first: int, last: int) -> list[AbortedTransaction]:
        """Transactions with offsets from ``first`` to before ``last``, as a consumer sees them."""
        return [
            each for each in self.aborted if each.last_offset >= first and each.first_offset < last
        ]

    # --- forgetting ------------------------------------------------------------------------

    def expire(self) -> None:
        """Forget producers without an open transaction. Source: ``removeExpiredProducers``."""
        for producer_id, entry in list(self.entries.items()):
            if entry.transaction_start is None:
                del self.entries[producer_id]
        self._verifications.clear()

    def keep_last_batches(self) -> None:
        """Forget all but the last batch of each producer, as a snapshot does.

        Source: ``ProducerStateManager.writeSnapshot``.
        """
        for entry in self.entries.values():
            while len(entry.batches) > 1:
                entry.batches.popleft()

    @classmethod
    def from_log(cls, batches: Iterable[Batch]) -> ProducerStates:
        """The producers that the batches of a log tell of."""
        states = cls()
        for batch in batches:
            if batch.control:
                states.end_transaction(
                    batch, commit=batch.commits, coordinator_epoch=batch.coordinator_epoch
                )
            elif batch.has_producer:
                states.append(batch)
        return states


def _after(sequence: int) -> int:
    """The number that must follow; 0 after none."""
    return 0 if sequence == NO_SEQUENCE else increment_sequence(sequence, 1)
