"""The state of one partition: its batches, its pending records, and the memory that they hold.

Only :class:`Partition` changes this state. The policies (:mod:`dispatch`, :mod:`memory_quota`) read
its views, decide, and send it commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from aioproducer.accumulator.batch_growth import BatchGrowth
from aioproducer.accumulator.pending_records import PendingRecord
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.model import BatchOrder, TopicPartition
from aioproducer.records.record_batch import NO_PRODUCER_STATE


class Partition:
    """A queue of batches; the first one leaves next, and records join the last one.

    A batch is *queued*, then *in flight* (:meth:`take`), then queued again (:meth:`requeue`) or
    settled (:meth:`settle`). A batch in flight may be *set aside* (:meth:`set_aside`) before it is
    settled.
    """

    __slots__ = (
        "_aside",
        "_barrier",
        "_batches",
        "_delayed_until",
        "_delivered",
        "_forgotten",
        "_futures",
        "_growth",
        "_held",
        "_in_flight",
        "_leader",
        "_log_end",
        "_next_place",
        "_open",
        "_pending",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, leader: int | None = None) -> None:
        self.topic_partition = topic_partition
        self._leader = leader
        self._batches: deque[ProducerBatch] = deque()
        self._open: ProducerBatch | None = None
        self._in_flight: list[ProducerBatch] = []
        self._aside: list[ProducerBatch] = []
        self._log_end = 0
        self._pending: deque[PendingRecord] | None = None
        """None until a record waits for memory: there may be thousands of partitions."""
        self._held = 0
        self._futures = 0
        self._delayed_until = 0.0
        self._delivered: BatchOrder = -1
        """The last place that was delivered under the present epoch; -1: none."""
        self._forgotten: BatchOrder = -1
        """The last place that a broker wrote although earlier batches were missing; -1: none."""
        self._next_place: BatchOrder = 0
        self._barrier: BatchOrder | None = None
        self._growth = BatchGrowth()

    # --- views -----------------------------------------------------------------------------

    @property
    def leader(self) -> int | None:
        """The node that leads the partition; None: no node does."""
        return self._leader

    @property
    def open_batch(self) -> ProducerBatch | None:
        """The last queued batch while records may still join it; None while records wait."""
        return self._open

    @property
    def first_batch(self) -> ProducerBatch | None:
        """The queued batch that leaves next; None: no batch is queued."""
        return self._batches[0] if self._batches else None

    @property
    def queued(self) -> int:
        """The number of queued batches."""
        return len(self._batches)

    @property
    def in_flight(self) -> Sequence[ProducerBatch]:
        """The batches that were taken and have no outcome yet."""
        return self._in_flight

    @property
    def is_busy(self) -> bool:
        """True if a batch or a pending record is here."""
        return bool(self._batches or self._in_flight or self._aside) or any(
            not record.settled for record in self.pending
        )

    @property
    def growth(self) -> BatchGrowth:
        """The growth of its batches, but for those that keyless records begin."""
        return self._growth

    @property
    def delayed_until(self) -> float:
        """No batch leaves earlier: the end of the backoff of a retry."""
        return self._delayed_until

    @property
    def is_acknowledged(self) -> bool:
        """True if a batch was delivered under the present epoch."""
        return self._delivered >= 0

    @property
    def is_blocked(self) -> bool:
        """True if the barrier keeps the first batch from leaving; see :meth:`block`."""
        if self._barrier is None or not self._batches:
            return False
        first = self._batches[0]
        return first.state is NO_PRODUCER_STATE or first.order >= self._barrier

    @property
    def pending(self) -> Iterable[PendingRecord]:
        """The records that wait for memory; later ones queue behind them."""
        return self._pending or ()

    @property
    def first_pending(self) -> PendingRecord | None:
        """The oldest pending record, which may be settled already; None: no record is pending."""
        return self._pending[0] if self._pending else None

    @property
    def held(self) -> int:
        """Bytes of pooled memory in its batches, queued or in flight."""
        return self._held

    @property
    def futures(self) -> int:
        """The number of futures of records in its full batches."""
        return self._futures

    @property
    def aside(self) -> Sequence[ProducerBatch]:
        """The batches that no broker remembers, in order; a later one's outcome decides theirs."""
        return self._aside

    @property
    def log_end(self) -> int:
        """The offset after the last batch in the log, as far as it is known."""
        return self._log_end

    def later_was_delivered(self, batch: ProducerBatch) -> bool:
        """True if a later batch is in the log, and its broker had not forgotten the producer."""
        return self._delivered > batch.order >= self._forgotten

    def later_may_tell(self, batch: ProducerBatch) -> bool:
        """True if a later batch may be in the log, and then ``batch`` is there, too."""
        return any(
            other.order > batch.order and (other.uncertain or other.in_request)
            for other in (*self._in_flight, *self._batches)
        )

    def is_first_in_line(self, batch: ProducerBatch) -> bool:
        """True if no earlier batch lacks an outcome."""
        earlier = [*self._in_flight, *self._batches] if self._batches else self._in_flight
        return not any(0 <= other.order < batch.order for other in earlier)

    # --- batches ---------------------------------------------------------------------------

    def open(self, batch: ProducerBatch) -> None:
        """Queue a new batch, which records may join."""
        self.close_batch()
        batch.partition = batch.builder.owner = self
        self._open = batch
        self._batches.append(batch)

    def close_batch(self) -> None:
        """Close the open batch: no more records may join it."""
        if self._open is not None:
            self._open.builder.close()
            self._open = None

    def take(self, node: int) -> ProducerBatch:
        """Take the first batch, which leaves for ``node``; the first time it gets its place."""
        batch = self._batches.popleft()
        if self._open is batch:
            self.close_batch()
        if batch.order < 0:
            batch.order = self._next_place
            self._next_place += 1
            if batch.growth is not None:
                batch.growth.left(batch.size, len(batch.builder.buffer))
        self._in_flight.append(batch)
        batch.node = node
        return batch

    def delay(self, not_before: float) -> float:
        """Let no batch leave before that time, or a later one set before; returns the time."""
        self._delayed_until = max(self._delayed_until, not_before)
        return self._delayed_until

    def requeue(self, taken: ProducerBatch, batches: Iterable[ProducerBatch]) -> None:
        """Queue ``batches`` in the place of a taken one, in the order of first sends."""
        self._in_flight.remove(taken)
        taken.in_request = False
        for batch in batches:
            later = 0
            for queued in self._batches:
                if queued.order < 0 or queued.order > batch.order:
                    break
                later += 1
            self._batches.insert(later, batch)

    def set_aside(self, taken: ProducerBatch) -> None:
        """Let later batches leave before ``taken`` has its outcome."""
        self._in_flight.remove(taken)
        taken.in_request = False
        self._aside.append(taken)

    def settle(self, batch: ProducerBatch) -> bool:
        """``batch`` has its outcome; True if it was queued, False if it was in flight."""
        in_flight, queued = self._in_flight, self._batches
        if batch.delivered and batch.order > self._delivered:
            self._delivered = batch.order
            if batch.base_offset >= 0:
                first = bool(in_flight) and in_flight[0] is batch
                if not first or (queued and 0 <= queued[0].order < batch.order):
                    room = batch.base_offset - self._log_end
                    if self._missing_before(batch.order) > room:
                        self._forgotten = batch.order
                self._log_end = batch.base_offset + batch.builder.count
        if in_flight and in_flight[0] is batch:
            del in_flight[0]
            return False
        if batch in in_flight:
            in_flight.remove(batch)
            return False
        if batch in self._aside:
            self._aside.remove(batch)
            return False
        self._batches.remove(batch)
        if self._open is batch:
            self.close_batch()
        return True

    def _missing_before(self, order: BatchOrder) -> int:
        """The number of records in earlier batches that lack an outcome."""
        earlier = [*self._in_flight, *self._batches] if self._batches else self._in_flight
        return sum(each.builder.count for each in earlier if 0 <= each.order < order)

    # --- order across failures and leaders ---------------------------------------------------

    def move_leader(self, leader: int | None, now: float) -> None:
        """Another node leads; queued batches need not wait for a backoff of the old one."""
        self._leader = leader
        if leader is not None:
            self._delayed_until = now

    def block(self, barrier: BatchOrder | None) -> bool:
        """Let only batches leave that have a sequence number and a place before ``barrier``.

        None: all may leave. Returns True if no such batch is left.
        """
        self._barrier = barrier
        if barrier is None or self._in_flight:
            return False
        # The batches with a number are the first ones, in their order.
        return not self._batches or self.is_blocked

    def renumber(self) -> None:
        """Let the queued batches get numbers of a new epoch. None of them may be in the log."""
        for batch in self._batches:
            if batch.order < 0:
                break
            batch.state = NO_PRODUCER_STATE
            batch.uncertain = False
        self.forget_acknowledged()
        self._barrier = None

    def forget_acknowledged(self) -> None:
        """Note that the producer has a new id or epoch, which no broker knows."""
        self._delivered = self._forgotten = -1

    # --- memory ----------------------------------------------------------------------------

    def enqueue(self, record: PendingRecord) -> bool:
        """Let ``record`` wait for memory; True if it is the first one."""
        if self._pending is None:
            self._pending = deque()
        self._pending.append(record)
        self.close_batch()
        return len(self._pending) == 1

    def pop_pending(self) -> None:
        """Remove the first pending record."""
        if self._pending:
            self._pending.popleft()

    def take_pending(self) -> list[PendingRecord]:
        """Remove and return all pending records."""
        taken, self._pending = self.pending, None
        return [*taken]

    def hold(self, size: int) -> None:
        """Hold ``size`` more bytes of pooled memory (fewer, if negative)."""
        self._held += size

    def count_futures(self, futures: int) -> None:
        """Add ``futures`` to the count for records in full batches."""
        self._futures += futures
