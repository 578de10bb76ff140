"""The idempotent producer's identity: producer id, epochs, sequence numbers. No I/O.

A broker remembers for each producer id and partition the sequence numbers that it has seen. So a
batch that is sent twice is written once, and nothing is written behind a batch that is missing: a
batch that fails for good leaves a gap, and no later number of its partition is taken any more.

The partition, and it alone, is then held back by its *break*:

- The batch is surely not in the log, for a broker refused it or it never left: a **gap**. Batches
  with earlier numbers are settled first. Then the partition's epoch grows, and the batches behind
  the gap, none of which can be in the log, get numbers from 0.
- The batch may be in the log, because it was given up on its way: a **doubt**. No batch gets a
  number. Batches that have one are sent with it: if one is taken, there was no gap, and the numbers
  go on; if a broker misses an earlier one (OUT_OF_ORDER_SEQUENCE_NUMBER), there is a gap. If there
  are none, the epoch grows, so that the batch in doubt can't be written any more once a later one
  is, however late its request comes.

The failed batch's records have their error by then; later records are delivered in order, once.

In a transaction nothing breaks: a batch that fails aborts the transaction as a whole, and the next
one has an epoch of its own.

Source: Kafka's ``TransactionManager`` (``handleFailedBatch``, ``canRetry``,
``maybeResolveSequences``, ``bumpIdempotentProducerEpoch``; KIP-360). Where it numbers a batch anew
that may have been written, the batch here keeps its number until a broker has said what it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from aioproducer.engine.records.record_batch import NO_PRODUCER_STATE, ProducerState
from aioproducer.model import BatchOrder, TopicPartition

MAX_EPOCH: Final = 2**15 - 1
_LAST_SEQUENCE: Final = 2**31 - 1

EVERYTHING_WITH_A_NUMBER: Final = 2**62
"""A place behind those of all batches."""


class ProducerIdState(Enum):
    """The stages of an identity."""

    UNUSED = "unused"
    """``enable_idempotence`` is off; batches carry no numbers."""
    NEEDED = "needed"
    """A broker is asked for it before the next batch leaves."""
    REQUESTED = "requested"
    READY = "ready"


@dataclass(slots=True)
class _Numbers:
    """The numbers of one partition."""

    producer_id: int
    epoch: int
    sequence: int = 0


@dataclass(slots=True)
class Break:
    """The reason that a partition can't go on with its numbers."""

    gap: BatchOrder | None = None
    """The first place that is known to be missing in the log."""
    doubt: BatchOrder | None = None
    """The last place of a batch that may be in the log or not."""


class SequenceNumbers:
    """Producer id, and the epoch and the next sequence number of each partition."""

    def __init__(self, *, idempotent: bool, transactional: bool = False) -> None:
        self.state = ProducerIdState.NEEDED if idempotent else ProducerIdState.UNUSED
        if transactional:
            self.state = ProducerIdState.REQUESTED
        self.transactional = transactional
        """True: the identity comes from a coordinator, and all partitions have one epoch."""
        self._producer_id = -1
        self._epoch = -1
        self._numbers: dict[TopicPartition, _Numbers] = {}
        self.breaks: dict[TopicPartition, Break] = {}
        """The partitions with a break, and its kind."""

    @property
    def usable(self) -> bool:
        """True if batches may leave."""
        return self.state in (ProducerIdState.READY, ProducerIdState.UNUSED)

    def requested(self) -> None:
        """An InitProducerId request is on its way."""
        self.state = ProducerIdState.REQUESTED

    def refused(self) -> None:
        """The request failed; ask again."""
        self.state = ProducerIdState.NEEDED

    def assigned(self, producer_id: int, epoch: int) -> None:
        """A broker assigned the identity, for the partitions that have no numbers yet."""
        self._producer_id = producer_id
        self._epoch = epoch
        self.state = ProducerIdState.READY

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        """A coordinator assigned the identity; every partition's numbers begin at 0."""
        self._numbers.clear()
        self.assigned(producer_id, epoch)

    @property
    def fresh(self) -> bool:
        """True if no batch was numbered yet in the epoch of :meth:`begin_epoch`."""
        return not self._numbers

    def stamp(self, partition: TopicPartition, count: int) -> ProducerState:
        """The numbers for the next batch of ``partition``, which has ``count`` records."""
        if self.state is ProducerIdState.UNUSED:
            return NO_PRODUCER_STATE
        numbers = self._numbers.get(partition)
        if numbers is None:
            numbers = self._numbers[partition] = _Numbers(self._producer_id, self._epoch)
        sequence = numbers.sequence
        numbers.sequence = (sequence + count) & _LAST_SEQUENCE  # as next_sequence()
        return ProducerState(numbers.producer_id, numbers.epoch, sequence, self.transactional)

    # --- a numbered batch failed -----------------------------------------------------------

    def missing(self, partition: TopicPartition, place: BatchOrder) -> None:
        """The batch at ``place`` is not in the log, and its number will not be either."""
        found = self.breaks.setdefault(partition, Break())
        found.gap = place if found.gap is None else min(found.gap, place)

    def doubtful(self, partition: TopicPartition, place: BatchOrder) -> None:
        """The batch at ``place`` was given up, and may be in the log."""
        found = self.breaks.setdefault(partition, Break())
        found.doubt = place if found.doubt is None else max(found.doubt, place)

    def delivered(self, partition: TopicPartition, place: BatchOrder) -> None:
        """The batch at ``place`` is in the log, and so is every one that came before it."""
        found = self.breaks.get(partition)
        if found is None or found.doubt is None or found.doubt > place:
            return
        found.doubt = None
        if found.gap is None:
            del self.breaks[partition]

    def barrier(self, partition: TopicPartition) -> BatchOrder | None:
        """The place before which numbered batches may still leave, and no others; None: all may."""
        found = self.breaks.get(partition)
        if found is None:
            return None
        return EVERYTHING_WITH_A_NUMBER if found.gap is None else found.gap

    def renew(self, partition: TopicPartition) -> None:
        """Begin at 0 in a new epoch: brokers refuse later batches of an older one.

        After the last epoch, a new producer id is needed.
        """
        self.breaks.pop(partition, None)
        numbers = self._numbers.pop(partition)
        if numbers.epoch < MAX_EPOCH:
            self._numbers[partition] = _Numbers(numbers.producer_id, numbers.epoch + 1)
        elif self.state is ProducerIdState.READY:
            self.state = ProducerIdState.NEEDED
