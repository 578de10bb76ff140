"""Gaps in the sequence numbers of partitions, and how their batches get over them. No I/O.

A batch that fails for good leaves a gap: brokers take no later number of its partition. Only that
partition is held back:

- The batch is surely not in the log, for a broker refused it or it never left: it is **missing**.
  Batches with earlier numbers are completed first. Later ones that may be in the log, for a broker
  may have forgotten the producer, are sent again with their numbers, and so are those between: they
  are delivered, or the broker misses an earlier one. Then the partition's epoch grows, and the
  others after the gap get numbers from 0.
- The batch may be in the log, because it was given up on its way: it is **doubtful**. No batch
  gets a number. Batches that have one are sent with it: if one is taken, there was no gap, and the
  numbers go on; if a broker misses an earlier one (OUT_OF_ORDER_SEQUENCE_NUMBER), there is a gap.
  If there are none, the epoch grows, so that the batch in doubt can't be written any more once a
  later one is, however late its request comes.

The failed batch's records have their error by then; later records are delivered in order, once.

Which batch a refused number makes missing or doubtful, :func:`~outcomes.decide_error` says by where
it stands: only the first one in flight of its partition is judged, and the others are sent again.

A batch that no broker remembers is *set aside* instead, if a later one may be in the log: the later
one's outcome shows whether this one is in the log, too.

If another cluster takes the place of the producer's, the numbers end: the batches that were sent
get new ones of another producer id, once none of their partition is in flight any more.

In a transaction nothing breaks: a batch that fails aborts the transaction as a whole, and the next
one has an epoch of its own.

Source: Kafka's ``TransactionManager`` (``handleFailedBatch``, ``canRetry``,
``maybeResolveSequences``, ``bumpIdempotentProducerEpoch``; KIP-360). Where it gives a new number
to a batch that may have been written, here it keeps its number until a broker's answer decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.engine.accumulator import BatchQueue, Partition, ProducerBatch
from aioproducer.engine.records.builder import NO_PRODUCER_STATE
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.model import BatchOrder

if TYPE_CHECKING:
    from aioproducer.engine.transactions.manager import TransactionManager

EVERYTHING_WITH_A_NUMBER: Final = 2**62
"""An order after those of all batches."""


class Gaps:
    """The partitions whose sequence numbers have a gap, or may have one.

    What is known of the gap stands in the :class:`Partition`. ``transactions``: None without a
    ``transactional_id``.
    """

    def __init__(
        self,
        batches: BatchQueue,
        sequence_numbers: SequenceNumbers,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._batches = batches
        self._sequence_numbers = sequence_numbers
        self._transactions = transactions
        self.partitions: dict[Partition, None] = {}
        """The partitions with a gap or a barrier, or that move to another cluster."""

    # --- batches that have numbers -------------------------------------------------------------

    def left_by(self, batch: ProducerBatch, *, uncertain: bool) -> None:
        """``batch`` has failed for good. ``uncertain``: it may be in the log."""
        if batch.state is NO_PRODUCER_STATE:
            return
        if self._transactions is not None:
            self._transactions.numbers_lost()
        elif uncertain:
            self._doubt(batch)
        else:
            self.note_missing(batch)

    def note_missing(self, batch: ProducerBatch) -> None:
        """``batch`` is not in the log, and its number will not be either."""
        batch.partition.note_missing(batch)
        self.partitions[batch.partition] = None

    def lose_number(self, batch: ProducerBatch) -> None:
        """A broker misses an earlier number, so ``batch`` will get a new one."""
        self.note_missing(batch)
        batch.state = NO_PRODUCER_STATE

    def _doubt(self, batch: ProducerBatch) -> None:
        batch.partition.note_doubtful(batch)
        self.partitions[batch.partition] = None

    def set_aside(self, batch: ProducerBatch, now: float) -> None:
        """Let the outcome of a later batch tell whether ``batch`` is in the log."""
        batch.partition.set_aside(batch, now)
        if self._transactions is None:
            self._doubt(batch)

    def delivered(self, batch: ProducerBatch) -> Sequence[ProducerBatch]:
        """``batch`` is in the log, and so is every one that was sent before it.

        Behind a gap, its broker has forgotten the producer. If it has restarted since, it only
        remembers the last batch. So the batches before that one which may be in the log, and were
        to get new numbers, could be written twice. They are returned: the caller fails them.
        """
        partition: Partition = batch.partition
        partition.dispel_doubt(batch)
        if partition.has_gap_before(batch):
            lost: Sequence[ProducerBatch] = partition.written_behind_a_gap(batch)
            return lost
        return ()

    # --- another cluster -----------------------------------------------------------------------

    def leave_cluster(self) -> None:
        """Send the batches to another cluster from now on, with numbers of another producer id.

        Those that may be in the former cluster's log are sent as well: no broker of the other one
        knows them. :meth:`close` does it partition by partition.
        """
        self._sequence_numbers.leave_cluster()
        self._batches.forget_acknowledged()
        for partition in self.partitions:
            partition.forget_gap()
        for batch in self._batches:
            if batch.state is not NO_PRODUCER_STATE:
                batch.partition.begin_move()
                self.partitions[batch.partition] = None

    # --- batches that were set aside -----------------------------------------------------------

    def told_by(
        self, delivered: ProducerBatch, base_offset: int
    ) -> list[tuple[ProducerBatch, bool]]:
        """The batches that were set aside before a ``delivered`` one, and whether it shows that
        they are in the log.

        They are, at unknown offsets, for no broker writes a number after a gap. But one that forgot
        the producer does. It leaves no room for them. Behind a known gap, it shows nothing.
        """
        partition: Partition = delivered.partition
        told: list[tuple[ProducerBatch, bool]] = []
        forgotten = partition.has_gap_before(delivered)
        room = partition.room_before(base_offset)
        for batch in partition.take_aside():
            room -= batch.count
            # Without an offset it is a duplicate: its broker forgot nothing.
            told.append((batch, not forgotten and (room >= 0 or base_offset < 0)))
        return told

    # --- partitions ----------------------------------------------------------------------------

    def close(self, now: float) -> Iterator[ProducerBatch]:
        """Block the partitions with a gap until they can continue, with numbers of a new epoch.

        Call this after outcomes, before batches leave. The batches that were set aside, and whose
        outcome no later one has shown, are yielded: the caller fails them. A partition that moves
        to another cluster is blocked until no batch is in flight to the former one.
        """
        for partition in sorted(self.partitions, key=lambda each: each.topic_partition):
            if partition.moves:
                partition.leave_cluster()
            barrier = barrier_of_gap(partition)
            if partition.block(barrier, now):
                yield from partition.take_aside()
                if not partition.moves:
                    self._sequence_numbers.renew(partition.topic_partition)
                partition.renumber(now)
                del self.partitions[partition]
            elif barrier is None:
                del self.partitions[partition]


def barrier_of_gap(partition: Partition) -> BatchOrder | None:
    """The first batch that may not leave, for :meth:`Partition.block`; None: there is no gap."""
    if partition.moves:
        return 0
    if partition.missing is None and partition.doubtful is not None:
        return EVERYTHING_WITH_A_NUMBER
    return partition.missing
