"""Partitions, and the backlogs of brokers which hold them while a batch can be sent.

A :class:`Partition` owns its state: its batches, its pending records, the memory that they hold.
Other parts of this package read it. Only the commands of the partition change it, and each of them
leaves the partition in its leader's :class:`Backlog` if its first batch may leave. Whether the
batches of a backlog leave now is decided in ``BatchSender._send_to``.

Source: ``ready`` and ``drain`` of Kafka's ``RecordAccumulator``. Kafka examines every partition to
find ready batches. Here each partition lines up by itself, so no step costs more with more topics.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from math import inf

from aioproducer.engine.accumulator.pending_records import PendingRecord
from aioproducer.engine.accumulator.producer_batch import (
    ASIDE,
    DELIVERED,
    QUEUED,
    SENT,
    TAKEN,
    BatchGrowth,
    ProducerBatch,
)
from aioproducer.engine.records.acceleration import OpenBuilders
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import NO_PRODUCER_STATE
from aioproducer.foundation import tuning
from aioproducer.model import BatchOrder, BigInt, TopicPartition


class Partition:
    """A queue of batches; the first one leaves next, and records join the last one.

    A batch is *queued*, then *in flight* (:meth:`take`), then queued again (:meth:`requeue`) or
    completed (:meth:`complete`). A batch in flight may be *set aside* (:meth:`set_aside`) before
    that.
    """

    __slots__ = (
        "_acknowledged",
        "_backlogs",
        "_barrier",
        "_closed_bytes",
        "_forgotten",
        "_next_order",
        "_unplaced",
        "aside",
        "backlog",
        "delayed_until",
        "doubtful",
        "futures",
        "growth",
        "held",
        "in_flight",
        "is_listed",
        "leader",
        "log_end",
        "missing",
        "moves",
        "number",
        "open_batch",
        "open_builders",
        "pending",
        "queue",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        backlogs: Backlogs,
        leader: int | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.number: int = topic_partition.partition
        self.leader = leader
        """The node that leads the partition; None: no node does."""
        self._backlogs = backlogs
        self.backlog: Backlog = backlogs.of(leader)
        """The backlog of its leader."""
        self.is_listed = False
        """True if the partition is in :attr:`backlog`."""
        self.queue: deque[ProducerBatch] = deque()
        """The batches that wait to leave, in their order."""
        self.open_batch: ProducerBatch | None = None
        """The last queued batch while records may still join it; None while records wait."""
        self.open_builders: OpenBuilders
        """Those of its topic, with the builder of :attr:`open_batch`; set once it is there."""
        self._closed_bytes: BigInt = 0
        """Bytes of the records in the batches before :attr:`open_batch`."""
        self.in_flight: list[ProducerBatch] = []
        """The batches that were taken, and were not queued again, set aside or completed. Some
        may still be compressed, before they are sent."""
        self.aside: list[ProducerBatch] = []
        """The batches that no broker remembers, in order; a later one's outcome decides theirs."""
        self.pending: deque[PendingRecord] | None = None
        """The records that wait for memory, if any ever did; later ones queue after them."""
        self.growth = BatchGrowth()
        """The growth of its batches, but for those that keyless records begin."""
        self.held = 0
        """Bytes of pooled memory in its batches, queued or in flight."""
        self.futures = 0
        """The number of futures of records in its full batches."""
        self.delayed_until = 0.0
        """No batch leaves earlier: the end of the backoff of a retry."""
        self.log_end: BigInt = 0
        """The offset after the last batch in the log, as far as it is known."""
        self._acknowledged: BatchOrder = -1
        """The order of the last batch that was delivered under the present epoch; -1: none."""
        self._forgotten: BatchOrder = -1
        """The order of the last batch that was written with earlier ones missing; -1: none."""
        self._next_order: BatchOrder = 0
        self._unplaced = 0
        """The number of records in completed batches without a known offset, after the one that
        ends at :attr:`log_end`."""
        self._barrier: BatchOrder | None = None
        """See :meth:`block`."""
        self.missing: BatchOrder | None = None
        """The order of the first batch that is known to be missing in the log; None: no gap."""
        self.doubtful: BatchOrder | None = None
        """The order of the last failed batch that may be in the log or not; None: no doubt."""
        self.moves = False
        """True while its batches have numbers of a former cluster."""

    # --- views -----------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True if a batch or a pending record is here."""
        return bool(self.queue or self.in_flight or self.aside) or any(
            not record.is_done for record in self.pending or ()
        )

    @property
    def produced(self) -> int:
        """Bytes of the records in all batches so far."""
        batch = self.open_batch
        return self._closed_bytes + (0 if batch is None else batch.size - BATCH_OVERHEAD)

    @property
    def is_blocked(self) -> bool:
        """True if the barrier keeps the first batch from leaving; see :meth:`block`."""
        if self._barrier is None or not self.queue:
            return False
        return not _may_leave(self.queue[0], self._barrier)

    def later_was_delivered(self, batch: ProducerBatch) -> bool:
        """True if a later batch is in the log, and its broker had not forgotten the producer."""
        return self.later_is_in_log(batch) and batch.order >= self._forgotten

    def later_is_in_log(self, batch: ProducerBatch) -> bool:
        """True if a later batch is in the log, whatever its broker knew of the producer."""
        return bool(self._acknowledged > batch.order)

    def room_before(self, base_offset: BigInt) -> int:
        """The number of records before ``base_offset`` that no completed batch accounts for."""
        return base_offset - self.log_end - self._unplaced

    def later_may_tell(self, batch: ProducerBatch) -> bool:
        """True if a later batch may be in the log, and then ``batch`` is there, too."""
        return any(
            other.order > batch.order and (other.uncertain or other.phase is SENT)
            for other in (*self.in_flight, *self.queue)
        )

    def has_gap_before(self, batch: ProducerBatch) -> bool:
        """True if the number of an earlier batch will never be in the log."""
        return self.missing is not None and bool(self.missing < batch.order)

    def is_first_in_line(self, batch: ProducerBatch) -> bool:
        """True if no earlier batch lacks an outcome."""
        return not any(self._earlier(batch.order))

    def _earlier(self, order: BatchOrder) -> Iterable[ProducerBatch]:
        unsettled = (*self.in_flight, *self.queue) if self.queue else self.in_flight
        return (each for each in unsettled if 0 <= each.order < order)

    # --- its place in the backlog ------------------------------------------------------------

    def line_up(self, now: float) -> None:
        """Enter the backlog of the leader if the first batch may leave."""
        backlog: Backlog
        queue, backlog = self.queue, self.backlog
        if self.is_listed:
            if len(queue) > 1:
                backlog.is_due = True
            return
        if not queue:
            return
        first: ProducerBatch
        first, add_to_transaction = queue[0], self._backlogs.add_to_transaction
        if (
            self.delayed_until > now
            or (self._barrier is not None and self.is_blocked)
            or (self.in_flight and self._must_wait(first))
            or (add_to_transaction is not None and not add_to_transaction(self.topic_partition))
        ):
            return
        backlog.partitions[self] = None
        self.is_listed = True
        if first is not self.open_batch or first.order >= 0:
            backlog.is_due = True
        if first.created < backlog.oldest:
            backlog.oldest = first.created

    def _line_up_anew(self, now: float) -> None:
        """Leave the backlog, and enter the right one: the first batch or a rule has changed."""
        left: Backlog = self.backlog
        if self.is_listed:
            del left.partitions[self]
            self.is_listed = False
        self.backlog = self._backlogs.of(self.leader)
        self.line_up(now)
        if not left.partitions:
            left.not_ready_since = None

    def _must_wait(self, first: ProducerBatch) -> bool:
        """True if ``first`` may not follow the batches in flight."""
        if self._backlogs.one_at_a_time:
            return True
        if not self._backlogs.in_order:
            return False
        leader, in_flight = self.leader, self.in_flight
        # A broker without state of the producer accepts any first sequence number. So no batch
        # follows the first one of an epoch before that is acknowledged, or follows a batch in
        # flight to another broker.
        if leader is not None and (
            self._acknowledged < 0 or any(batch.node != leader for batch in in_flight)
        ):
            return True
        # No batch follows one that may be in the log: brokers know the last five batches of a
        # partition, and it must stay among them until its outcome is certain.
        return any(
            batch.uncertain or (first.order >= 0 and batch.order < first.order)
            for batch in in_flight
        )

    # --- batches ---------------------------------------------------------------------------

    def join(self, open_builders: OpenBuilders) -> None:
        """Note the topic's ``open_builders``, which list this partition's open builder."""
        self.open_builders = open_builders

    def open(self, batch: ProducerBatch, now: float) -> None:
        """Queue a new batch, which records may join."""
        if self.open_batch is not None:
            self.close_batch()
        batch.partition = batch.builder.owner = self
        self.open_batch = batch
        self.open_builders.partitions[self.number] = batch.builder
        self.queue.append(batch)
        self.line_up(now)

    def close_batch(self) -> None:
        """Close the open batch: no more records may join it, and it need not linger for them."""
        batch: ProducerBatch | None = self.open_batch
        if batch is not None:
            self.open_batch = None
            self.open_builders.partitions[self.number] = None
            self._closed_bytes += batch.builder.position - BATCH_OVERHEAD
            batch.builder.close()
            if self.is_listed:
                self.backlog.is_due = True

    def take(self, now: float) -> ProducerBatch:
        """Take the first batch, which leaves for the leader; the first time it gets its order."""
        del self.backlog.partitions[self]
        self.is_listed = False
        batch: ProducerBatch = self.queue.popleft()
        if self.open_batch is batch:
            self.close_batch()
        if batch.order < 0:
            batch.order = self._next_order
            self._next_order += batch.order_share
            growth: BatchGrowth | None = batch.growth
            if growth is not None and growth.doublings:
                growth.left(batch.size, len(batch.builder.buffer))
        self.in_flight.append(batch)
        batch.enter(TAKEN)
        batch.node = -1 if self.leader is None else self.leader
        if self.queue:
            self.line_up(now)
        return batch

    def delay(self, not_before: float, now: float) -> None:
        """Let no batch leave before that time, or a later one set before."""
        self.delayed_until = max(self.delayed_until, not_before)
        if self.delayed_until > now:
            self._backlogs.delay(self, self.delayed_until)

    def requeue(self, taken: ProducerBatch, batches: Iterable[ProducerBatch], now: float) -> None:
        """Queue ``batches`` in the place of a taken one, in the order of first sends."""
        self.in_flight.remove(taken)
        for batch in batches:
            if batch is taken:  # else it is a part of the taken one
                batch.enter(QUEUED)
            later = 0
            for queued in self.queue:
                if queued.order < 0 or queued.order > batch.order:
                    break
                later += 1
            self.queue.insert(later, batch)
        self._line_up_anew(now)

    def set_aside(self, taken: ProducerBatch, now: float) -> None:
        """Let later batches leave before ``taken`` has its outcome."""
        self.in_flight.remove(taken)
        taken.enter(ASIDE)
        self.aside.append(taken)
        self.line_up(now)

    def take_aside(self) -> Sequence[ProducerBatch]:
        """Remove and return the batches set aside, in order: the caller completes them."""
        if not self.aside:
            return ()
        taken, self.aside = self.aside, []
        return taken

    def complete(self, batch: ProducerBatch, now: float) -> None:
        """``batch`` has its outcome."""
        in_flight, queue = self.in_flight, self.queue
        first = bool(in_flight) and in_flight[0] is batch
        if batch.order > self._acknowledged:
            if batch.phase is DELIVERED:
                self._acknowledged = batch.order
            if batch.base_offset >= 0:
                if not first or (queue and 0 <= queue[0].order < batch.order):
                    missing = sum(each.count for each in self._earlier(batch.order))
                    if missing > self.room_before(batch.base_offset):
                        self._forgotten = batch.order
                self.log_end = batch.base_offset + batch.builder.count
                self._unplaced = 0
            else:
                self._unplaced += batch.builder.count
        if first:
            del in_flight[0]
        elif batch in in_flight:
            in_flight.remove(batch)
        elif batch in self.aside:
            self.aside.remove(batch)
        elif batch in queue:
            queue.remove(batch)
            if self.open_batch is batch:
                self.close_batch()
            self._line_up_anew(now)
            return
        if queue:
            self.line_up(now)

    # --- order across failures and leaders ---------------------------------------------------

    def move_leader(self, leader: int | None, now: float) -> None:
        """Another node leads; queued batches need not wait for a backoff of the old one."""
        self.leader = leader
        if leader is not None:
            self.delayed_until = 0.0
        self._line_up_anew(now)

    def block(self, barrier: BatchOrder | None, now: float) -> bool:
        """Let only batches leave that have a sequence number, and an order before ``barrier``, or
        not after that of a batch that may be in the log with its number.

        None: all may leave. Returns True if no such batch is left.
        """
        if barrier is not None:
            barrier = self._after_doubts(barrier)
            self._let_pass_first(barrier)
        self._barrier = barrier
        self._line_up_anew(now)
        if barrier is None or self.in_flight:
            return False
        # The batches that may leave are the first ones, in their order.
        return not self.queue or self.is_blocked

    def _after_doubts(self, barrier: BatchOrder) -> BatchOrder:
        """``barrier``, or the order after the last batch that may be in the log with its number.

        A broker that has forgotten the producer takes any number: earlier batches come first.
        """
        for batch in self.queue:
            if batch.order < 0:
                break
            if batch.uncertain and batch.state is not NO_PRODUCER_STATE:
                barrier = max(barrier, batch.order + batch.order_share)
        return barrier

    def _let_pass_first(self, barrier: BatchOrder) -> None:
        """Queue the batches that ``barrier`` lets pass before the others that were sent."""
        queue, sent = self.queue, list[ProducerBatch]()
        while queue and queue[0].order >= 0:
            sent.append(queue.popleft())
        sent.sort(key=lambda batch: (not _may_leave(batch, barrier), batch.order))
        queue.extendleft(reversed(sent))

    def written_behind_a_gap(self, delivered: ProducerBatch) -> Sequence[ProducerBatch]:
        """Note that a broker has forgotten the producer: it wrote ``delivered`` behind a gap.

        Returns the earlier batches that may be in the log, and have lost their numbers.
        """
        self._forgotten = max(self._forgotten, delivered.order)
        return [
            each
            for each in self._earlier(delivered.order)
            if each.uncertain and each.state is NO_PRODUCER_STATE
        ]

    def renumber(self, now: float) -> None:
        """Let the queued batches get numbers of a new epoch, after :meth:`block` returned True.

        The gap is closed.
        """
        for batch in self.queue:
            if batch.order < 0:
                break
            batch.state = NO_PRODUCER_STATE
        self.forget_acknowledged()
        self.forget_gap()
        self.moves = False
        self._barrier = None
        self._line_up_anew(now)

    def leave_cluster(self) -> None:
        """Take the numbers of the queued batches back: another cluster gets them, and its log."""
        for batch in self.queue:
            if batch.order < 0:
                break
            batch.state = NO_PRODUCER_STATE
        self.log_end = self._unplaced = 0
        self.forget_acknowledged()

    def note_missing(self, batch: ProducerBatch) -> None:
        """``batch`` is not in the log, and its number will not be either."""
        known = self.missing
        self.missing = batch.order if known is None else min(known, batch.order)

    def note_doubtful(self, batch: ProducerBatch) -> None:
        """``batch`` has failed or was set aside, and may be in the log."""
        known = self.doubtful
        self.doubtful = batch.order if known is None else max(known, batch.order)

    def dispel_doubt(self, delivered: ProducerBatch) -> None:
        """``delivered`` is in the log: there is no gap before it."""
        if self.doubtful is not None and self.doubtful <= delivered.order:
            self.doubtful = None

    def begin_move(self) -> None:
        """Another cluster gets the batches that have numbers, see :meth:`leave_cluster`."""
        self.moves = True

    def forget_gap(self) -> None:
        """Numbering restarts, so no number is missing any more."""
        self.missing = self.doubtful = None

    def forget_acknowledged(self) -> None:
        """Note that the producer has a new id or epoch, which no broker knows."""
        self._acknowledged = self._forgotten = -1

    # --- memory ----------------------------------------------------------------------------

    @property
    def first_pending(self) -> PendingRecord | None:
        """The oldest pending record, which may be done already; None: no record is pending."""
        return self.pending[0] if self.pending else None

    def enqueue(self, record: PendingRecord) -> bool:
        """Let ``record`` wait for memory; True if it is the first one."""
        if self.pending is None:
            self.pending = deque()
        self.pending.append(record)
        self.close_batch()
        return len(self.pending) == 1

    def pop_pending(self) -> None:
        """Remove the first pending record."""
        if self.pending:
            self.pending.popleft()

    def take_pending(self) -> Sequence[PendingRecord]:
        """Remove and return all pending records."""
        taken, self.pending = self.pending, None
        return taken or ()

    def hold(self, size: int) -> None:
        """Hold ``size`` more bytes of pooled memory (fewer, if negative)."""
        self.held += size

    def count_futures(self, futures: int) -> None:
        """Add ``futures`` to the count for records in full batches."""
        self.futures += futures


def _may_leave(batch: ProducerBatch, barrier: BatchOrder) -> bool:
    """True if ``batch`` may leave although its partition has a ``barrier``."""
    return batch.state is not NO_PRODUCER_STATE and batch.order < barrier


class Backlog:
    """The partitions of one leader whose first batch may leave; the next one to send is first."""

    __slots__ = ("is_due", "node", "not_ready_since", "oldest", "partitions")

    def __init__(self, node: int | None) -> None:
        self.node = node
        """The leader; None: the partitions have none."""
        self.partitions: OrderedDict[Partition, None] = OrderedDict()
        self.is_due = False
        """True if a batch here need not linger: it is full, a retry, left out of the last
        request, or another one follows it."""
        self.oldest = inf
        """A lower bound of the creation of the batches here."""
        self.not_ready_since: float | None = None
        """The time of the first refusal, while there are batches and the leader takes none."""

    def is_short(self, size: int, most_bytes: int, held: bool) -> bool:
        """True if no batch can leave for the leader now, and its next request is half empty.

        ``size``: bytes of a full batch. ``most_bytes``: those of a request, which has one batch of
        each partition. ``held``: see :attr:`Backlogs.held`.
        """
        if self.not_ready_since is None and not held:
            return False
        return 2 * size * len(self.partitions) <= most_bytes

    def take(self, most_bytes: int, now: float) -> list[ProducerBatch]:
        """Take one batch of each partition in turn, ``most_bytes`` in all (or one batch).

        In the next turn, partitions that were left out come first, and partitions with more batches
        come last.
        """
        taken: list[ProducerBatch] = []
        partitions = self.partitions
        self.is_due = False
        self.oldest = inf
        size: int = 0
        for _ in range(len(partitions)):
            partition: Partition = next(iter(partitions))
            more: int = partition.queue[0].builder.position
            if taken and size + more > most_bytes:
                self.is_due = True
                self._fill(taken, most_bytes - size, most_bytes // tuning.REQUEST_LEFT_PART, now)
                break
            size += more
            taken.append(partition.take(now))
        return taken

    def _fill(self, taken: list[ProducerBatch], room: int, enough: int, now: float) -> None:
        """Take batches that fit into ``room`` from behind one that does not, while there is more of
        it than ``enough``: else a request for large batches could leave half empty."""
        full = {batch.partition for batch in taken}
        partition: Partition
        for partition in list(self.partitions):
            if room <= enough:
                return
            size: int = partition.queue[0].builder.position
            if size <= room and partition not in full:
                room -= size
                taken.append(partition.take(now))


class Backlogs:
    """The backlogs of all brokers, and the rules that all partitions follow to enter them.

    ``one_at_a_time``: at most one batch of a partition in flight. ``in_order``: retries leave in
    their first order, because they carry sequence numbers. ``add_to_transaction`` takes a partition
    and returns True if its batches may leave at once; else the partition lines up again later.
    """

    __slots__ = (
        "_ticket",
        "add_to_transaction",
        "by_node",
        "delayed",
        "held",
        "in_order",
        "leaderless",
        "one_at_a_time",
    )

    def __init__(
        self,
        *,
        one_at_a_time: bool,
        in_order: bool,
        add_to_transaction: Callable[[TopicPartition], bool] | None = None,
    ) -> None:
        self.one_at_a_time = one_at_a_time
        self.in_order = in_order
        self.add_to_transaction = add_to_transaction
        self.by_node: dict[int, Backlog] = {}
        self.held = False
        """True while no batch may leave for any broker: there is no producer id."""
        self.leaderless = Backlog(None)
        """The partitions without a leader: no node gets their batches."""
        self.delayed: list[tuple[float, int, Partition]] = []
        """A heap of the ends of backoffs, and their partitions."""
        self._ticket = count()

    def of(self, leader: int | None) -> Backlog:
        """The backlog of ``leader``."""
        if leader is None:
            return self.leaderless
        backlog = self.by_node.get(leader)
        if backlog is None:
            backlog = self.by_node[leader] = Backlog(leader)
        return backlog

    def nodes(self) -> list[int]:
        """The nodes with batches to send."""
        return [node for node, backlog in self.by_node.items() if backlog.partitions]

    def begin_after(self, node: int) -> None:
        """Put ``node``, and the nodes before it, behind all others."""
        for each in [*self.by_node]:
            self.by_node[each] = self.by_node.pop(each)
            if each == node:
                return

    def topics_without_leader(self) -> set[str]:
        """The topics with a batch whose partition has no leader."""
        return {partition.topic_partition.topic for partition in self.leaderless.partitions}

    # --- backoffs ----------------------------------------------------------------------------

    def delay(self, partition: Partition, due: float) -> None:
        """Let ``partition`` line up again at ``due``."""
        heapq.heappush(self.delayed, (due, next(self._ticket), partition))

    def release_delayed(self, now: float) -> float | None:
        """Line up the partitions whose backoff is over; returns the end of the next backoff."""
        while self.delayed:
            due, _, partition = self.delayed[0]
            if due > now:
                return due
            heapq.heappop(self.delayed)
            partition.line_up(now)
        return None
