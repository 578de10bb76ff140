"""All batches that are not acknowledged yet, and the ways of records into them.

Source: Kafka's ``RecordAccumulator``. Nothing in this room waits: memory that is not there now is
the business of the waiting line and of whoever calls :meth:`RecordAccumulator.admit`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

from aioproducer.accumulator.batch_sizes import BatchSizes
from aioproducer.accumulator.batching_rules import BatchingRules
from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.dispatch import Dispatch
from aioproducer.accumulator.flush import Flushes, FlushFuture
from aioproducer.accumulator.incomplete_batches import IncompleteBatches
from aioproducer.accumulator.memory_quota import Grant, MemoryQuota
from aioproducer.accumulator.node_quota import NodeKey
from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.pending_records import PendingRecord, PendingRecords
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.serialized_record import SerializedRecord
from aioproducer.accumulator.sticky import StickyChoice
from aioproducer.accumulator.topic import Topic
from aioproducer.cluster.snapshot import TopicInfo
from aioproducer.errors import InvalidPartitionError, ProducerError
from aioproducer.model import TopicPartition
from aioproducer.partitioning import STICKY, UNKNOWN, PartitionFunction, route
from aioproducer.records.acceleration import RouteCache
from aioproducer.records.builder import batch_size_bound


class RecordAccumulator:
    """Puts records into batches: at once where there is memory, else from the line where they wait.

    ``on_failed`` hears of the error with which records fail that are in no batch yet.
    Its parts follow the batches: ``incomplete`` has all of them, ``dispatch`` those that may
    leave, ``shares`` their memory.
    """

    def __init__(
        self,
        rules: BatchingRules,
        pool: BufferPool,
        line: PendingRecords,
        sticky: StickyChoice,
        wake: Callable[[], None],
        expansion: Callable[[str], float],
        partitioner: PartitionFunction | None = None,
        admits: Callable[[TopicPartition], bool] | None = None,
        on_failed: Callable[[ProducerError], None] | None = None,
    ) -> None:
        self.rules = rules
        self.pool = pool
        self.line = line
        self.closing = False
        """See :meth:`close`."""
        self.routes = RouteCache(ignore_keys=rules.ignore_keys)
        """The short way into open batches that records have joined by :meth:`append`."""
        self.crowded = False
        """True if some node has no room for more records: see :meth:`last_has_room`."""
        self.stalled: WeakKeyDictionary[object, dict[Partition | None, None]]
        self.stalled = WeakKeyDictionary()
        """The queues in which a caller's records stood in line since it last asked for room."""
        self.last_waiting: Partition | None = None
        """The queue in which the record sent last has to wait, if its topic is known."""
        self._pressed: set[NodeKey] = set()
        """The nodes without room, as far as is known."""
        self._sticky = sticky
        self._wake = wake
        self._partitioner = partitioner
        self._on_failed = on_failed
        self._ignore_keys = rules.ignore_keys
        self._one_record_each = rules.batch_size <= 1
        self._topics: dict[str, Topic] = {}
        self.sizes = BatchSizes(rules, pool.total, expansion)
        self.flushes = Flushes()
        self.memory_quota = MemoryQuota(pool, line, rules.batch_size, self._needs)
        self.dispatch = Dispatch(
            self._topics,
            one_at_a_time=rules.one_at_a_time,
            in_order=rules.in_order,
            admits=admits,
        )
        self.incomplete = IncompleteBatches(
            self._topics, self.dispatch, self.memory_quota, self.flushes, rules.batch_size
        )

    # --- records come in -------------------------------------------------------------------

    def append(self, record: SerializedRecord, now: float) -> ProducerBatch | None:
        """Put ``record`` into a batch, which is returned; None: it has to be enqueued.

        ``now`` is the clock's time of the ``send()``. Raises :class:`RecordTooLargeError`.
        """
        queues = self._topics.get(record.topic)
        if queues is None:
            return None
        count = len(queues.partitions)
        number = route(record.key, record.partition, count, ignore_keys=self._ignore_keys)
        if number == STICKY:
            return self._append_sticky(queues, record, now)
        if number == UNKNOWN:
            return None
        queue = queues.partitions[number]
        batch = queue.open
        if batch is None or not batch.append(record):
            if batch is not None:
                self.incomplete.full(batch)
            batch = self._open_batch(queue, record, now)
        if batch is not None:
            queues.open_batches.partitions[number] = batch.builder
            self.routes.last = batch.builder
        return batch

    def _append_sticky(
        self, queues: Topic, record: SerializedRecord, now: float
    ) -> ProducerBatch | None:
        queue = queues.sticky or self._sticky.choose(queues)
        batch = queue.open
        if batch is None or not batch.append(record):
            if batch is not None:
                self.incomplete.full(batch)
            size = batch_size_bound(record.key, record.value, record.headers)
            queue = self._sticky.for_batch(queues, size)
            batch = queue.open
            if batch is None or not batch.append(record):
                batch = self._open_batch(queue, record, now)
            queues.sticky_batch = batch
        if batch is not None:
            queues.open_batches.sticky = batch.builder
            self.routes.last = batch.builder
        return batch

    def allow_fast_path(self, is_open: bool) -> None:
        """Allow or forbid the short way in, on which nothing is asked: outside of transactions."""
        self.routes.is_open = is_open

    def choose_partition(self, topic: str, key: bytes | None, value: bytes | None) -> int | None:
        """The partition by the user's partitioner; None: there is none, or no known topic yet.

        Raises :class:`InvalidPartitionError` if it fails or names a partition that does not exist.
        """
        queues = self._topics.get(topic)
        if self._partitioner is None or queues is None:
            return None
        return queues.ask(self._partitioner, key, value)

    def _open_batch(
        self, queue: Partition, record: SerializedRecord, now: float
    ) -> ProducerBatch | None:
        needed = self.sizes.checked(record)
        size = max(self.memory_quota.fair(self.sizes.full(record.topic)), needed)
        if queue.waiting:
            return None
        buffer = self.memory_quota.allocate(queue, size, now)
        self._note_pressure(queue.leader)
        if buffer is None:
            return None
        batch = self.incomplete.begin(queue, buffer, now, now + self.rules.delivery_timeout)
        self._wake()
        batch.append(record)
        if self._one_record_each:
            queue.close_full_batch()
        return batch

    # --- the waiting line ------------------------------------------------------------------

    def enqueue(
        self, record: SerializedRecord, now: float, deadline: float, *, over_capacity: bool = False
    ) -> PendingRecord:
        """Let ``record`` wait until its topic, its partition or memory is there.

        It expires at ``deadline``. ``over_capacity``: see :meth:`PendingRecords.add`.

        Raises:
            RecordTooLargeError: no batch can ever hold it.
            BufferExhaustedError: no more records can wait.
        """
        pending = PendingRecord(record, self.sizes.checked(record), now, deadline)
        queues = self._topics.get(record.topic)
        queue = None if queues is None else self._queue_of(queues, pending)
        node = None if queue is None else queue.leader
        self.memory_quota.begin(node, now)
        self.routes.last = None
        self.last_waiting = queue
        self._note_pressure(node)
        self.line.add(pending, node, over_capacity=over_capacity)
        self.flushes.began(pending)
        self._line_up(queue, pending, now)
        self._note_pressure(node)
        return pending

    def _line_up(self, queue: Partition | None, record: PendingRecord, now: float) -> None:
        """Let ``record`` wait for memory, or until its partition is known."""
        if queue is None:
            self.line.await_topic(record)
        else:
            self.line.move(record, queue.leader)
            self._stall(queue, record, now)

    def withdraw(self, record: PendingRecord) -> None:
        """Take a record that its caller has cancelled out of the line, if it is still there."""
        self._drop(record)

    def withdraw_cancelled(self) -> None:
        """Take all cancelled records out of the line."""
        for record in [each for each in self.line if each.cancelled]:
            self._drop(record)

    def _drop(self, record: PendingRecord) -> None:
        if not record.settled:
            record.take_back()
            self._settle(record)

    def _queue_of(self, queues: Topic, record: PendingRecord) -> Partition | None:
        partitions = queues.partitions
        key, partition = record.record.key, record.record.partition
        number = route(key, partition, len(partitions), ignore_keys=self._ignore_keys)
        if number == STICKY:
            return self._sticky.for_waiting(queues, record.size)
        return None if number == UNKNOWN else partitions[number]

    def _stall(self, queue: Partition, record: PendingRecord, now: float) -> None:
        queue.waiting.append(record)
        queue.close_batch()
        if len(queue.waiting) == 1:
            self.memory_quota.wait(queue, now)
        self._wake()

    def _needs(self, queue: Partition) -> int | None:
        record = self._first_waiting(queue)
        if record is None:
            return None
        return max(self.memory_quota.fair(self.sizes.full(record.topic)), record.size)

    def _first_waiting(self, queue: Partition) -> PendingRecord | None:
        while queue.waiting:
            record = queue.waiting[0]
            if record.cancelled:
                self._drop(record)
            if not record.settled:
                return record
            queue.waiting.popleft()
        return None

    def admit(self, now: float) -> list[float]:
        """Fill new batches from the line while there is memory; the seconds that each waited."""
        waited = []
        while (grant := self.memory_quota.grant(now)) is not None:
            if self.fill(grant, now):
                waited.append(grant.waited)
        return waited

    def fill(self, grant: Grant, now: float) -> bool:
        """Begin a batch with records that waited for it; False: none of them fits any more."""
        queue = grant.queue
        record = self._first_waiting(queue)
        if record is None or record.size > len(grant.buffer):
            self.memory_quota.release(queue, grant.buffer)
            if record is not None:  # the one it was meant for is gone, and this is larger
                self.memory_quota.wait(queue, now)
            return False
        deadline = record.sent + self.rules.delivery_timeout
        batch = self.incomplete.begin(queue, grant.buffer, now, deadline)
        self._wake()
        while record is not None and batch.append(record.record):
            if self._one_record_each:
                queue.close_full_batch()
            queue.waiting.popleft()
            self._settle(record, batch)
            record = self._first_waiting(queue)
        if record is not None:
            queue.close_batch()
            self.memory_quota.wait(queue, now)
        return True

    def _settle(self, record: PendingRecord, batch: ProducerBatch | None = None) -> None:
        self.line.remove(record)
        if batch is not None:
            self.flushes.moved(record, batch)
        self.flushes.done(record)

    def fail_waiting(self, records: Iterable[PendingRecord], error: ProducerError) -> int:
        """Take ``records`` out of the line with ``error``; returns the number still in it."""
        failed = 0
        for record in records:
            if record.settled:
                continue
            record.fail(error)
            self._settle(record)
            failed += 1
        if failed and self._on_failed is not None:
            self._on_failed(error)
        return failed

    # --- the cluster changes ---------------------------------------------------------------

    def prepare(self, info: TopicInfo) -> Generator[None, None, dict[int, Partition]]:
        """Make the queues that :meth:`update_topic` will need; each is a step."""
        known = self._topics.get(info.name)
        fresh: dict[int, Partition] = {}
        for number, leader, _ in info.partitions[0 if known is None else len(known.partitions) :]:
            fresh[number] = queue = Partition(TopicPartition(info.name, number))
            queue.leader = leader
            yield
        return fresh

    def update_topic(
        self,
        info: TopicInfo,
        now: float,
        fresh: Mapping[int, Partition] = MappingProxyType({}),
    ) -> None:
        """Follow the topic's partitions and leaders; place the records that waited to know them."""
        queues = self._topics.get(info.name)
        if queues is None:
            queues = self._topics[info.name] = Topic(info.name)
            self.routes.topics[info.name] = queues.open_batches
        queues.resize(len(info.partitions), fresh)
        self.memory_quota.add(
            queue for number, queue in fresh.items() if queues.find(number) is queue
        )
        for queue, partition in zip(queues.partitions, info.partitions, strict=False):
            if queue.leader != partition.leader:
                self._move(queue, partition.leader, now)
        homeless: list[PendingRecord] = []
        for queue in queues.retired.values():
            queue.close_batch()
            self._move(queue, None, now)
            homeless += queue.waiting
            queue.waiting.clear()
        for record in [*homeless, *self.line.topic_known(info.name)]:
            if not record.settled:
                self._place(queues, record, now)

    def _move(self, queue: Partition, leader: int | None, now: float) -> None:
        self.memory_quota.move(queue, leader, now)
        self.dispatch.redirect(queue, now)

    def _place(self, queues: Topic, record: PendingRecord, now: float) -> None:
        if record.cancelled:
            self._drop(record)
            return
        try:
            serialized = record.record
            if serialized.partition is None:
                serialized.partition = self.choose_partition(
                    serialized.topic, serialized.key, serialized.value
                )
            batch = self.append(serialized, now)
            if batch is None:
                self._line_up(self._queue_of(queues, record), record, now)
                return
        except InvalidPartitionError as error:
            self.fail_waiting([record], error)
            return
        self.incomplete.expire_by(batch, record.sent + self.rules.delivery_timeout)
        self._settle(record, batch)

    def forget_topic(self, topic: str, now: float) -> bool:
        """Drop an unused topic; False while it still has records."""
        queues = self._topics.get(topic)
        if self.line.awaiting(topic) or (queues is not None and queues.busy):
            return False
        if queues is not None:
            for queue in queues.partitions:
                self.memory_quota.move(queue, None, now)
            del self._topics[topic], self.routes.topics[topic]
        return True

    # --- room and time ---------------------------------------------------------------------

    def last_has_room(self) -> bool:
        """True if there is room for more records like the one that was sent last."""
        last = self.routes.last
        return last is not None and not self.closing and last.owner.leader not in self._pressed

    def _note_pressure(self, node: NodeKey) -> None:
        if self.memory_quota.pressure(node):
            self._pressed.add(node)
            self.crowded = True

    def update_crowded(self) -> None:
        """Find out which nodes have room again; to be called when memory has come back."""
        if self._pressed:
            self._pressed = {node for node in self._pressed if self.memory_quota.pressure(node)}
            self.crowded = self.closing or bool(self._pressed)

    def linger(self, node: int, now: float, *, idle: bool) -> float:
        """Seconds that a batch for ``node`` which is not full waits now.

        ``idle``: no request to the node is in flight.
        """
        linger = self.rules.linger
        if linger is None:
            linger = 0.0 if idle else self.rules.adaptive_linger
        if linger and (self.closing or self.flushes or self.memory_quota.hurries(node, now)):
            return 0.0
        return linger

    def next_deadline(self) -> float | None:
        """The next time when a batch or a waiting record expires; None: there is neither."""
        moments = (
            self.line.next_deadline(),
            self.incomplete.next_expiry(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def flush(self, future: FlushFuture) -> None:
        """Resolve ``future`` once every record that is here now has its fate; nothing lingers."""
        self.flushes.begin(future)
        if self.flushes:
            self._wake()

    def close(self) -> None:
        """No record will come any more: nothing lingers, and there is no room."""
        self.closing = self.crowded = True
        self._wake()
