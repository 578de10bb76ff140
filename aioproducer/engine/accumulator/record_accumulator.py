"""The accumulator: records on their way into batches, and the façade of this package.

Source: Kafka's ``RecordAccumulator``. No code of this package waits: a record without memory
becomes a pending record, which :meth:`PendingQueue.admit` puts into a batch later.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from math import inf
from random import Random
from types import MappingProxyType
from typing import Any

from aioproducer.engine.accumulator.batch_queue import BatchQueue
from aioproducer.engine.accumulator.memory_quota import (
    BufferPool,
    MemoryQuota,
    PendingMemory,
)
from aioproducer.engine.accumulator.partition import Backlogs, Partition
from aioproducer.engine.accumulator.pending_records import (
    PendingRecord,
    SerializedRecord,
    Unserialized,
)
from aioproducer.engine.accumulator.producer_batch import (
    AccumulatorSettings,
    BatchSizes,
    ProducerBatch,
)
from aioproducer.engine.accumulator.results import Flushes, FlushFuture, LateResults, TopicOutcomes
from aioproducer.engine.accumulator.topic import StickyChoice, Topic
from aioproducer.engine.accumulator.waiting import MemoryWaiters, PendingFailed, PendingQueue
from aioproducer.engine.cluster.snapshot import TopicInfo
from aioproducer.engine.partitioning import STICKY, UNKNOWN, PartitionFunction
from aioproducer.engine.records.acceleration import RecordsBuilder, Routes, batch_size_bound
from aioproducer.errors import InvalidPartitionError
from aioproducer.model import BigInt, Header, TopicPartition


class RecordAccumulator:
    """Puts records into batches: at once if there is memory, else when memory comes back.

    ``wake`` requests a round of the sender; it takes the time, or nothing. ``make_future`` makes
    the futures of callers that wait for memory.
    ``expansion`` returns the ratio of a topic's bytes before compression to its bytes on the wire.
    ``add_to_transaction`` takes the partition of a batch: True if its batches may leave at once.
    ``on_failed`` is called with the error of failed pending records, and with the records.
    ``seek`` requests the metadata of a topic for which records wait; it takes the time, too.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        random: Random,
        wake: Callable[..., None],
        make_future: Callable[[], Any],
        expansion: Callable[[str], float] = lambda _topic: 1.0,
        partitioner: PartitionFunction | None = None,
        add_to_transaction: Callable[[TopicPartition], bool] | None = None,
        on_failed: PendingFailed | None = None,
        seek: Callable[[str, float], None] = lambda _topic, _now: None,
    ) -> None:
        self.settings = settings
        self.closing = False
        """See :meth:`close`."""
        self.topic_outcomes = TopicOutcomes()
        """Delivered and failed records; the sender notes them."""
        self.routes = Routes(ignore_keys=settings.ignore_keys)
        """The fast path into open batches that records have joined by :meth:`append`."""
        self._one_record_each: bool = settings.batch_size <= 1
        self._wake = wake
        self._seek = seek
        self.partitioner = partitioner
        """Chooses for records that are marked :attr:`SerializedRecord.by_partitioner`."""
        self._topics: dict[str, Topic] = {}
        self._sizes = BatchSizes(settings, expansion)
        self._pool = BufferPool(settings.memory, settings.batch_size, settings.most_doublings)
        self._pending_memory = PendingMemory(
            settings.pending_memory, self._pool, settings.kept_memory
        )
        self.flushes = Flushes()
        """The flushes that have begun and not ended."""
        self.memory_quota = MemoryQuota(
            self._pool,
            self._pending_memory,
            settings.batch_size,
            lambda each: self.pending.needs(each),
        )
        self._backlogs = Backlogs(
            one_at_a_time=settings.one_at_a_time,
            in_order=settings.in_order,
            add_to_transaction=add_to_transaction,
        )
        self.batches = BatchQueue(
            settings, self._topics, self._backlogs, self.memory_quota, self.flushes, self._sizes
        )
        """The batches, for the sender."""
        self.late_results = LateResults(self.flushes)
        """The results of delivered batches, for the sender."""
        self.pending = PendingQueue(
            settings,
            self._sizes,
            self._pending_memory,
            self.batches,
            self.memory_quota,
            self.flushes,
            wake,
            on_failed,
        )
        """The pending records, for the commands that cancel, fail or serve them."""
        self.waiters = MemoryWaiters(
            self.pending, self.memory_quota, self._pool, self.routes, make_future, wake
        )
        """Pending records and callers of ``drain()`` that wait for memory, and back pressure."""
        self._sticky = StickyChoice(settings, random, self.memory_quota.has_room, self._sizes)

    # --- records come in -------------------------------------------------------------------

    def append(self, record: SerializedRecord, now: float) -> RecordsBuilder | None:
        """Put ``record`` into a batch; None: it must be enqueued.

        ``now`` is the clock's time of the ``send()``. Raises :class:`RecordTooLargeError`.
        """
        self.routes.came += 1
        topic: Topic | None = self._topics.get(record.topic)
        return None if topic is None else self._put(topic, record, now)

    def _put(self, topic: Topic, record: SerializedRecord, now: float) -> RecordsBuilder | None:
        """Put ``record`` into the open batch of its partition, or into a new one."""
        number = self._route(topic, record)
        if number == UNKNOWN:
            return None
        fields = record.timestamp_ms, record.key, record.value, record.headers
        builder = self.routes.open_in(topic.open_builders, number)
        if builder is not None and builder.append(record.token, *fields, record.sent_ns):
            return builder
        return self.begin(number, record.topic, *fields, record.token, record.sent_ns, now)

    def begin(
        self,
        number: int,
        topic: str,
        timestamp_ms: BigInt,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        token: Any,
        sent_ns: int,
        now: float,
    ) -> RecordsBuilder | None:
        """Begin a batch with a record that did not fit into the open one of its route ``number``.

        A keyless record may join the open batch of the next sticky partition instead. None: the
        record must be enqueued. Raises :class:`RecordTooLargeError`.
        """
        known: Topic = self._topics[topic]
        needed: int = batch_size_bound(key, value, headers)
        if needed > self._sizes.most:
            raise self.settings.too_large(topic, needed)
        partition: Partition
        if number == STICKY:
            tried = known.sticky
            if tried is not None and tried.open_batch is not None:
                self.batches.overflowed(tried.open_batch)
            partition, growth = self._sticky.for_batch(known, needed, now), known.growth
            if partition is not tried:  # its open batch has not been asked
                builder = self.routes.open_in(known.open_builders, number)
                if builder is not None and builder.append(
                    token, timestamp_ms, key, value, headers, sent_ns
                ):
                    return builder
                if tried is None and partition.open_batch is not None:
                    self.batches.overflowed(partition.open_batch)
        else:
            partition = known.partitions[number]
            growth = partition.growth
            if partition.open_batch is not None:
                self.batches.overflowed(partition.open_batch)
        if partition.pending:
            return None
        size: int = self.batches.next_size(partition, topic, growth, needed)
        quota: MemoryQuota = self.memory_quota
        buffer = quota.allocate(partition, size, now)
        if not quota.is_ample:
            self.waiters.memory_used(partition.leader)
        if buffer is None:
            return None
        batch: ProducerBatch = self.batches.open(partition, buffer, growth, now, now)
        self._wake(now)
        opened = self.routes.last = batch.builder
        opened.append(token, timestamp_ms, key, value, headers, sent_ns)
        if self._one_record_each:
            partition.close_batch()
        return opened

    def append_encoded(
        self,
        topic: str,
        number: int,
        encoded: RecordsBuilder,
        tokens: list[Any],
        sent_ns: int,
        now: float,
    ) -> bool:
        """Put the records of a caller's builder into a batch of their own; False: none is put.

        See :meth:`BatchQueue.add_encoded`.
        """
        batch = self.batches.add_encoded(topic, number, encoded, tokens, sent_ns, now)
        if batch is None:
            return False
        self.waiters.record_joined(batch.builder)
        self._wake(now)
        return True

    def knows(self, topic: str) -> bool:
        """True if the partitions of ``topic`` are known."""
        return topic in self._topics

    def allow_fast_path(self, is_open: bool) -> None:
        """Allow or forbid the fast path, which does not check for an open transaction."""
        self.routes.is_open = is_open

    def choose_partition(self, topic: str, key: bytes | None, value: bytes | None) -> int | None:
        """The user's partitioner's choice; None: no partitioner, or the topic is not known yet.

        Raises :class:`InvalidPartitionError` if it fails or names a partition that does not exist.
        """
        known = self._topics.get(topic)
        if self.partitioner is None or known is None:
            return None
        return known.ask(self.partitioner, key, value)

    # --- pending records -------------------------------------------------------------------

    def enqueue(
        self,
        record: SerializedRecord,
        now: float,
        *,
        caller: object = None,
        over_capacity: bool = False,
        unserialized: Unserialized | None = None,
    ) -> PendingRecord:
        """Let ``record`` wait until its bytes, its topic, its partition or memory is there.

        It expires after ``max_block_ms``. ``caller``: the task or thread that sent it, if it may
        wait for memory. ``over_capacity``: see :meth:`PendingQueue.add`. ``unserialized``: the
        record has no key, value and headers yet.

        Raises:
            RecordTooLargeError: no batch can ever hold the record.
            BufferExhaustedError: there is no room for more pending records.
        """
        size = self._sizes.checked(record) if unserialized is None else unserialized.size
        pending = PendingRecord(record, size, now, now + self.settings.max_block)
        topic = self._topics.get(record.topic)
        if unserialized is not None:
            pending.serialize, topic = unserialized.serialize, None
        partition = None if topic is None else self._partition_for(topic, pending, now)
        node = None if partition is None else partition.leader
        self.memory_quota.record_came(node, now)
        self.waiters.record_waits(partition)
        try:
            self.pending.add(pending, partition, now, over_capacity=over_capacity)
        finally:
            self.waiters.memory_used(node)
            if caller is not None and self.waiters.is_full:
                self.waiters.caller_stalls(caller)
        if pending.awaits_metadata or record.topic not in self._topics:
            self._seek(record.topic, now)
        self._wake()
        return pending

    def serialize_pending(self, topic: str, most: int, now: float) -> None:
        """Serialize the first ``most`` unserialized records of ``topic``, in their order.

        The call ends before the first record whose serializer is not prepared.
        """
        for record in self.pending.serialize(topic, most):
            known = self._topics.get(topic)
            if known is None:
                self.pending.let_wait(record, None, now)
            else:
                self._place(known, record, now)
        if topic in self.pending.awaiting_metadata:
            self._seek(topic, now)
        self._wake()  # the bytes are fewer than the estimate, so callers may have room

    def _route(self, topic: Topic, record: SerializedRecord) -> int:
        """The number of the record's partition, ``STICKY`` or ``UNKNOWN``."""
        return self.routes.route(topic.open_builders, record.key, record.partition)

    def _partition_for(self, topic: Topic, record: PendingRecord, now: float) -> Partition | None:
        number = self._route(topic, record.record)
        if number == STICKY:
            return self._sticky.for_pending(topic, record.size, now)
        return None if number == UNKNOWN else topic.partitions[number]

    # --- the cluster changes ---------------------------------------------------------------

    def prepare(self, info: TopicInfo) -> Generator[None, None, dict[int, Partition]]:
        """Make the partitions that :meth:`update_topic` will need, one in each step.

        A topic of few partitions needs no such steps.
        """
        topic = self._topics.get(info.name) or Topic(info.name, self._backlogs)
        fresh: dict[int, Partition] = {}
        for known in info.partitions[len(topic.partitions) :]:
            fresh[known.partition] = topic.make(known)
            yield
        return fresh

    def update_topic(
        self,
        info: TopicInfo,
        now: float,
        fresh: Mapping[int, Partition] = MappingProxyType({}),
    ) -> int:
        """Follow the topic's partitions and leaders; place the records that waited for them.

        Returns the number of partitions that went from one leader to another.
        """
        topic = self._topics.get(info.name)
        if topic is None:
            topic = self._topics[info.name] = Topic(info.name, self._backlogs)
        self.memory_quota.add(topic.resize(info.partitions, fresh))
        self.routes.topics[info.name] = topic.open_builders  # other threads may read them now
        moved = 0
        for partition, known in zip(topic.partitions, info.partitions, strict=False):
            if partition.leader != known.leader:
                moved += None not in (partition.leader, known.leader)
                self._move(partition, known.leader, now)
        records = self.pending.topic_known(info.name)
        if topic.retired:
            records = [*self._retire(topic, now), *records]
        for record in records:
            if not record.is_done:
                self._place(topic, record, now)
        return moved

    def _retire(self, topic: Topic, now: float) -> list[PendingRecord]:
        """No records join the retired partitions: returns their pending ones, to be routed anew."""
        homeless: list[PendingRecord] = []
        for partition in topic.retired.values():
            self._move(partition, None, now)
            homeless += partition.take_pending()
        for record in homeless:
            if record.record.by_partitioner:
                record.record.partition = None
        topic.drop_idle()
        return homeless

    def _move(self, partition: Partition, leader: int | None, now: float) -> None:
        before = partition.leader
        partition.move_leader(leader, now)
        self.memory_quota.moved(partition, before, now)

    def _place(self, topic: Topic, record: PendingRecord, now: float) -> None:
        if record.cancelled:
            self.pending.withdraw(record)
            return
        value: SerializedRecord = record.record
        try:
            if value.by_partitioner and value.partition is None:
                value.partition = self.choose_partition(value.topic, value.key, value.value)
            builder = self._put(topic, value, now)
            if builder is None:
                self.pending.let_wait(record, self._partition_for(topic, record, now), now)
                return
        except InvalidPartitionError as error:
            self.pending.refuse([record], error)
            return
        batch: ProducerBatch = builder.owner.queue[-1]
        self.batches.date_back(batch, record.sent)
        self.pending.joined(record, batch, now)

    def forget_topic(self, name: str, now: float) -> bool:
        """Drop an unused topic; False while it has records."""
        topic = self._topics.get(name)
        has_pending = name in self.pending.awaiting_metadata or name in self.pending.unserialized
        if has_pending or (topic is not None and topic.is_busy):
            return False
        if topic is not None:
            for partition in topic.partitions:
                self._move(partition, None, now)
            del self._topics[name], self.routes.topics[name]
            self._sizes.forget(name)
        self.topic_outcomes.forget(name)
        return True

    # --- time, flushes, the end ------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if every record has its outcome."""
        return not self.batches and not self.pending and not self.late_results.waiting

    @property
    def has_ended(self) -> bool:
        """True if it is closed, and every record has its outcome."""
        return self.closing and self.is_empty

    @property
    def records_without_outcome(self) -> int:
        """The number of records that are neither delivered nor failed."""
        return sum(batch.count for batch in self.batches) + len(self.pending)

    @property
    def free_memory(self) -> int:
        """Unused bytes."""
        return self._pool.available + self._pending_memory.free

    def next_deadline(self) -> float | None:
        """The next time when a batch or a pending record expires; None: there are no records."""
        deadline: float = self.batches.next_expiry
        if self._pending_memory.quota.used and (oldest := self.pending.oldest) is not None:
            deadline = min(deadline, oldest.deadline)
        return None if deadline == inf else deadline

    @property
    def somebody_waits(self) -> bool:
        """True if a record waits or has just waited, or a caller waits, or may soon."""
        pending, waiters = self.pending, self.waiters
        in_use = self._pending_memory.quota.used
        return bool(in_use or pending.waited or waiters.is_full or waiters.lines)

    def flush(self, future: FlushFuture) -> None:
        """Resolve ``future`` once every present record has its outcome; no batch lingers."""
        self.flushes.begin(future)
        if self.flushes:
            self._wake()

    def close(self) -> None:
        """No more records will come: no batch lingers, and there is no room."""
        self.closing = True
        self.waiters.stop()
        self._wake()
