"""Gaps in the sequence numbers of partitions, and how their batches get over them. No I/O.

A batch that fails for good leaves a gap: brokers take no later number of its partition. Only that
partition is held back, by its *break*:

- The batch is surely not in the log, for a broker refused it or it never left: it is **missing**.
  Batches with earlier numbers are settled first. Later ones that may be in the log, for a broker
  may have forgotten the producer, are sent again with their numbers, and so are those between: they
  are delivered, or the broker misses an earlier one. Then the partition's epoch grows, and the
  others after the gap get numbers from 0.
- The batch may be in the log, because it was given up on its way: it is **doubtful**. No batch
  gets a number. Batches that have one are sent with it: if one is taken, there was no gap, and the
  numbers go on; if a broker misses an earlier one (OUT_OF_ORDER_SEQUENCE_NUMBER), there is a gap.
  If there are none, the epoch grows, so that the batch in doubt can't be written any more once a
  later one is, however late its request comes.

The failed batch's records have their error by then; later records are delivered in order, once.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aioproducer.engine.accumulator import BatchQueue, ProducerBatch
from aioproducer.engine.records.builder import NO_PRODUCER_STATE
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.model import BatchOrder, TopicPartition

if TYPE_CHECKING:
    from aioproducer.engine.transactions.manager import TransactionManager

EVERYTHING_WITH_A_NUMBER: Final = 2**62
"""A place after those of all batches."""


@dataclass(slots=True, eq=False, repr=False)
class _Break:
    """The reason why a partition can't continue with its numbers."""

    missing: BatchOrder | None = None
    """The first place that is known to be missing in the log."""
    doubtful: BatchOrder | None = None
    """The last place of a batch that may be in the log or not."""

    @property
    def barrier(self) -> BatchOrder:
        """The barrier for :meth:`Partition.block`."""
        return EVERYTHING_WITH_A_NUMBER if self.missing is None else self.missing


class Gaps:
    """The partitions whose sequence numbers have a gap, or may have one.

    ``transactions``: None without a ``transactional_id``.
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
        self.breaks: dict[TopicPartition, _Break] = {}
        """The partitions with a break."""
        self.aside: set[TopicPartition] = set()
        """The partitions with a batch that was set aside."""
        self.blocked: set[TopicPartition] = set()
        """The partitions that have a barrier."""
        self._moving: set[TopicPartition] = set()
        """The partitions with batches that were sent to a former cluster."""

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
            self.missing(batch)

    def missing(self, batch: ProducerBatch) -> None:
        """``batch`` is not in the log, and its number will not be either."""
        found, place = self._break_of(batch), batch.order
        found.missing = place if found.missing is None else min(found.missing, place)

    def lose_number(self, batch: ProducerBatch) -> None:
        """A broker misses an earlier number, so ``batch`` will get a new one."""
        self.missing(batch)
        batch.state = NO_PRODUCER_STATE

    def precede(self, batch: ProducerBatch) -> bool:
        """True if the number of an earlier batch will never be in the log."""
        found = self.breaks.get(batch.topic_partition)
        return found is not None and found.missing is not None and found.missing < batch.order

    def _doubt(self, batch: ProducerBatch) -> None:
        found, place = self._break_of(batch), batch.order
        found.doubtful = place if found.doubtful is None else max(found.doubtful, place)

    def _break_of(self, batch: ProducerBatch) -> _Break:
        return self.breaks.setdefault(batch.topic_partition, _Break())

    def set_aside(self, batch: ProducerBatch, now: float) -> None:
        """Let the outcome of a later batch tell whether ``batch`` is in the log."""
        self._batches.set_aside(batch, now)
        self.aside.add(batch.topic_partition)
        if self._transactions is None:
            self._doubt(batch)

    def delivered(self, batch: ProducerBatch) -> Sequence[ProducerBatch]:
        """``batch`` is in the log, and so is every one that was sent before it.

        Behind a gap, its broker has forgotten the producer. If it has restarted since, it only
        remembers the last batch. So the batches before that one which may be in the log, and were
        to get new numbers, could be written twice. They are returned: the caller fails them.
        """
        topic_partition = batch.topic_partition
        found = self.breaks.get(topic_partition)
        if found is None:
            return ()
        if found.doubtful is not None and found.doubtful <= batch.order:
            found.doubtful = None
            if found.missing is None:
                del self.breaks[topic_partition]
        if self.precede(batch):
            lost: Sequence[ProducerBatch] = batch.partition.written_behind_a_gap(batch)
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
        self.breaks.clear()
        for batch in self._batches:
            if batch.state is not NO_PRODUCER_STATE:
                self._moving.add(batch.topic_partition)
        self.blocked |= self._moving

    # --- batches that were set aside -----------------------------------------------------------

    def told_by(
        self, delivered: ProducerBatch, base_offset: int
    ) -> list[tuple[ProducerBatch, bool]]:
        """The batches that were set aside before a ``delivered`` one, and whether it shows that
        they are in the log.

        They are, at unknown offsets, for no broker writes a number after a gap. But one that forgot
        the producer does. It leaves no room for them. Behind a known gap, it shows nothing.
        """
        told: list[tuple[ProducerBatch, bool]] = []
        forgotten = self.precede(delivered)
        room = delivered.partition.room_before(base_offset)
        for batch in self.take_aside(delivered.topic_partition):
            room -= batch.count
            # Without an offset it is a duplicate: its broker forgot nothing.
            told.append((batch, not forgotten and (room >= 0 or base_offset < 0)))
        return told

    def take_aside(self, topic_partition: TopicPartition) -> Sequence[ProducerBatch]:
        """The batches of a partition that were set aside, in order: the caller settles them."""
        if topic_partition not in self.aside:
            return ()
        self.aside.discard(topic_partition)
        return self._batches.aside(topic_partition)

    # --- partitions ----------------------------------------------------------------------------

    def close(self, now: float) -> Iterator[ProducerBatch]:
        """Block the partitions with a gap until they can continue, with numbers of a new epoch.

        Call this after outcomes, before batches leave. The batches that were set aside, and whose
        outcome no later one has shown, are yielded: the caller fails them.
        """
        concerned, self.blocked = self.blocked.union(self.breaks), set()
        for topic_partition in sorted(concerned):
            if topic_partition in self._moving:
                yield from self._move(topic_partition, now)
                continue
            found = self.breaks.get(topic_partition)
            barrier = None if found is None else found.barrier
            if self._batches.block(topic_partition, barrier, now):
                yield from self.take_aside(topic_partition)
                self.breaks.pop(topic_partition, None)
                self._sequence_numbers.renew(topic_partition)
                self._batches.renumber(topic_partition, now)
            elif barrier is not None:
                self.blocked.add(topic_partition)

    def _move(self, topic_partition: TopicPartition, now: float) -> Iterator[ProducerBatch]:
        """Block a partition until no batch is in flight to the former cluster."""
        if not self._batches.leave_cluster(topic_partition, now):
            self.blocked.add(topic_partition)
            return
        yield from self.take_aside(topic_partition)
        self._moving.discard(topic_partition)
        self.breaks.pop(topic_partition, None)
        self._batches.renumber(topic_partition, now)
