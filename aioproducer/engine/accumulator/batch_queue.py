"""The batches from their first record to their outcome, as the sender sees them.

Here is decided how long a batch has: ``delivery_timeout_ms`` counts from the ``send()`` of its
oldest record, and ends attempts as well as the wait for one. For a record that memory has kept in
the blocking producer's inbox it counts from the time when the record left that.
``BatchSender._send_to`` decides when the batches of a broker leave.

Source: Kafka's ``IncompleteBatches``, and the calls of its ``Sender`` to the ``RecordAccumulator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from aioproducer.engine.accumulator.memory_quota import MemoryQuota
from aioproducer.engine.accumulator.partition import Backlog, Backlogs, Partition
from aioproducer.engine.accumulator.producer_batch import (
    DELIVERED,
    AccumulatorSettings,
    BatchGrowth,
    BatchSizes,
    ProducerBatch,
    split_batch,
)
from aioproducer.engine.accumulator.results import Flushes
from aioproducer.engine.accumulator.topic import Topic
from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.model import TopicPartition


class BatchQueue:
    """The batches without an outcome, the oldest first: each begins and ends here.

    The sender takes batches from :attr:`backlogs`, and gives each one back: completed
    (:meth:`complete`), to be sent again (:meth:`retry`, :meth:`put_back`), or in parts
    (:meth:`split`).
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        topics: Mapping[str, Topic],
        backlogs: Backlogs,
        memory_quota: MemoryQuota,
        flushes: Flushes,
        sizes: BatchSizes,
    ) -> None:
        self.backlogs = backlogs
        """The batches that may leave, by broker."""
        self.delivery_timeout: float = settings.delivery_timeout
        self.max_request_size: int = settings.max_request_size
        self._most_doublings: int = settings.most_doublings
        self._retries = settings.retries
        self._topics = topics
        self._memory_quota = memory_quota
        self._flushes = flushes
        self._sizes = sizes
        self._batches: dict[ProducerBatch, None] = {}
        self.next_expiry = inf
        """No batch expires before this time; infinite without batches."""

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[ProducerBatch]:
        return iter(self._batches)

    @property
    def oldest(self) -> ProducerBatch | None:
        """The batch that was opened first, but for parts of split batches; any thread may ask."""
        return next(iter(self._batches), None)

    # --- batches begin -----------------------------------------------------------------------

    def open(
        self,
        partition: Partition,
        buffer: bytearray,
        growth: BatchGrowth | None,
        now: float,
        sent: float,
    ) -> ProducerBatch:
        """A new batch in ``buffer``, the last of ``partition`` and open; ``growth`` follows it.

        ``sent``: the time of the ``send()`` of its first record.
        """
        deadline: float = sent + self.delivery_timeout
        batch: ProducerBatch = ProducerBatch(
            partition.topic_partition, buffer, len(buffer), now, deadline
        )
        if deadline < self.next_expiry:
            self.next_expiry = deadline
        batch.growth = growth
        self._batches[batch] = None
        self._flushes.began(batch)
        partition.open(batch, now)
        return batch

    def add_encoded(
        self,
        topic: str,
        number: int,
        encoded: RecordsBuilder,
        tokens: list[Any],
        sent_ns: int,
        now: float,
    ) -> ProducerBatch | None:
        """Queue the records of a caller's builder as a closed batch; ``tokens`` get its outcome.

        None: the partition is unknown or has pending records, or there is no memory. Nothing has
        changed then. ``sent_ns``: the wall clock's time of the call that sends them.
        """
        known = self._topics.get(topic)
        if known is None or not 0 <= number < len(known.partitions):
            return None
        partition = known.partitions[number]
        if partition.first_pending is not None:
            return None
        buffer = self._memory_quota.allocate(partition, encoded.position, now)
        if buffer is None:
            return None
        if partition.open_batch is not None:
            self._count_futures(partition.open_batch)
        batch = self.open(partition, buffer, None, now, now)
        batch.builder.mark(sent_ns)
        batch.builder.copy_records(encoded, tokens)
        partition.close_batch()
        return batch

    def next_size(self, partition: Partition, topic: str, growth: BatchGrowth, least: int) -> int:
        """Bytes of the next batch of ``partition``, ``least`` or more: its part of the memory."""
        full = self._sizes.full(topic, growth)
        fair: int = self._memory_quota.fair_size(full, partition.leader, grown=growth.doublings > 0)
        return fair if fair > least else least

    def overflowed(self, batch: ProducerBatch) -> None:
        """A record did not fit into the open ``batch``; smaller ones still may."""
        self.filled(batch)
        self._count_futures(batch)

    def filled(self, batch: ProducerBatch) -> None:
        """``batch`` is full, and has not left: the next one may be larger."""
        growth: BatchGrowth | None = batch.growth
        backlog: Backlog
        capacity: int
        if growth is not None:
            backlog, capacity = batch.partition.backlog, len(batch.builder.buffer)
            short: bool = backlog.is_short(capacity, self.max_request_size, self.backlogs.held)
            growth.filled(batch.builder.count, self._most_doublings, short)

    def _count_futures(self, batch: ProducerBatch) -> None:
        tokens = batch.builder.tokens
        futures = len(tokens) - [*map(type, tokens)].count(BulkToken)
        self._memory_quota.count_futures(batch.partition, futures - batch.futures)
        batch.futures = futures

    # --- batches leave -----------------------------------------------------------------------

    def line_up(self, topic_partitions: Iterable[TopicPartition], now: float) -> None:
        """Line up the partitions that the transaction has let in: their batches may leave now."""
        for topic_partition in topic_partitions:
            topic = self._topics.get(topic_partition.topic)
            partition = None if topic is None else topic.find(topic_partition.partition)
            if partition is not None:
                partition.line_up(now)

    # --- batches come back -------------------------------------------------------------------

    def retry(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Queue a batch again after a failed attempt, to leave no earlier than ``not_before``."""
        batch.attempts += 1
        self.put_back(batch, not_before, now)

    def put_back(self, batch: ProducerBatch, not_before: float, now: float) -> None:
        """Put a batch that was taken back in its place."""
        batch.partition.delay(not_before, now)
        batch.partition.requeue(batch, [batch], now)

    def split(self, batch: ProducerBatch, now: float) -> int:
        """Queue a batch that was taken as smaller ones; returns their number.

        Source: ``RecordAccumulator.splitAndReenqueue``.
        """
        del self._batches[batch]
        parts = split_batch(batch, self._sizes.of_parts(batch))
        for part in parts:
            self._batches[part] = None
            self._flushes.began(part)
            self._flushes.moved(batch, part)
        self._flushes.done(batch)
        batch.partition.requeue(batch, parts, now)
        return len(parts)

    def complete(self, batch: ProducerBatch, now: float) -> None:
        """Forget a batch that has its outcome; its buffer goes back to the pool."""
        partition: Partition = batch.partition
        partition.complete(batch, now)
        del self._batches[batch]
        if not self._batches:
            self.next_expiry = inf
        self._flushes.done(batch)
        buffer: bytearray | None = batch.release()
        if batch.phase is DELIVERED:
            self._memory_quota.delivered(partition, now)
        if buffer is not None:
            if batch.futures:
                self._memory_quota.count_futures(partition, -batch.futures)
            self._memory_quota.release(partition, buffer)

    # --- sequence numbers --------------------------------------------------------------------

    def forget_acknowledged(self) -> None:
        """Note that the producer has a new id, which no broker knows."""
        for topic in self._topics.values():
            for partition in topic.all_partitions():
                partition.forget_acknowledged()

    # --- the delivery timeout ----------------------------------------------------------------

    def date_back(self, batch: ProducerBatch, sent: float) -> None:
        """Let ``batch`` expire no later than a record in it, whose ``send()`` was at ``sent``."""
        deadline = sent + self.delivery_timeout
        batch.deadline = min(batch.deadline, deadline)
        self.next_expiry = min(self.next_expiry, deadline)

    def sent_since(self, batch: ProducerBatch) -> float:
        """The time of the ``send()`` of its oldest record, in clock seconds."""
        return batch.deadline - self.delivery_timeout

    def may_retry(self, batch: ProducerBatch, now: float) -> bool:
        """True if attempts (``retries``) and time are left for ``batch``."""
        return batch.attempts < self._retries and now < batch.deadline

    def expired(self, now: float, most: float = inf) -> list[ProducerBatch]:
        """The batches whose ``delivery_timeout_ms`` is over, sent or not.

        Once the batches have ``most`` records, the others are left for the next call.
        """
        if now < self.next_expiry:
            return []
        late: list[ProducerBatch] = []
        records = 0
        for batch in self._batches:
            if records >= most:
                return late
            if batch.deadline <= now:
                late.append(batch)
                records += batch.count
        rest = (batch.deadline for batch in self._batches if batch.deadline > now)
        self.next_expiry = min(rest, default=inf)
        return late
