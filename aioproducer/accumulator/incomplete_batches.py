"""Every batch from its first record to its outcome. Source: Kafka's ``IncompleteBatches``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aioproducer.accumulator.dispatch import Dispatch
from aioproducer.accumulator.flush import Flushes
from aioproducer.accumulator.memory_quota import MemoryQuota
from aioproducer.accumulator.partition import Partition
from aioproducer.accumulator.producer_batch import ProducerBatch
from aioproducer.accumulator.splitting import split_batch
from aioproducer.accumulator.topic import Topic, queue_for
from aioproducer.records.bulk_tokens import BulkToken


class IncompleteBatches:
    """The batches without an outcome, the oldest first; each begins and ends here.

    ``batch_size``: bytes of the parts into which a batch that is too large is split first.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic],
        dispatch: Dispatch,
        memory_quota: MemoryQuota,
        flushes: Flushes,
        batch_size: int,
    ) -> None:
        self._topics = topics
        self._dispatch = dispatch
        self._memory_quota = memory_quota
        self._flushes = flushes
        self._batch_size = batch_size
        self._batches: dict[ProducerBatch, None] = {}
        self._next_expiry = float("inf")

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[ProducerBatch]:
        return iter(self._batches)

    def begin(
        self, queue: Partition, buffer: bytearray, now: float, deadline: float
    ) -> ProducerBatch:
        """A new batch in ``buffer``, the last of ``queue`` and open."""
        queue.close_batch()
        batch = ProducerBatch(queue.topic_partition, buffer, len(buffer), now, deadline)
        batch.builder.owner = queue
        queue.open = batch
        queue.batches.append(batch)
        self._batches[batch] = None
        self._flushes.began(batch)
        if deadline < self._next_expiry:
            self._next_expiry = deadline
        self._dispatch.enlist(queue, now)
        return batch

    def full(self, batch: ProducerBatch) -> None:
        """Count the futures of ``batch`` anew: a record did not fit, smaller ones still may."""
        tokens = batch.builder.tokens
        futures = len(tokens) - [*map(type, tokens)].count(BulkToken)
        self._memory_quota.promise(queue_for(batch, self._topics), futures - batch.futures)
        batch.futures = futures

    def complete(self, batch: ProducerBatch, now: float) -> None:
        """Forget a batch that has its outcome; its buffer goes back to the pool."""
        queue = queue_for(batch, self._topics)
        self._dispatch.complete(queue, batch, now)
        del self._batches[batch]
        self._flushes.done(batch)
        buffer = batch.release()
        if batch.delivered:
            self._memory_quota.delivered(queue, now)
        if buffer is not None:
            self._memory_quota.promise(queue, -batch.futures)
            self._memory_quota.release(queue, buffer)

    def split(self, batch: ProducerBatch, now: float) -> int:
        """Queue a drained batch of several records as smaller ones; returns their number.

        Source: ``RecordAccumulator.splitAndReenqueue``.
        """
        full = self._batch_size
        halves = batch.is_part or batch.size <= full
        size = max(batch.builder.max_record_size, batch.size // 2) if halves else full
        del self._batches[batch]
        parts = split_batch(batch, size)
        for part in parts:
            self._batches[part] = None
            self._flushes.began(part)
            self._flushes.moved(batch, part)
        self._flushes.done(batch)
        self._dispatch.replace(batch, parts, now)
        return len(parts)

    def expire_by(self, batch: ProducerBatch, deadline: float) -> None:
        """Let ``batch`` expire at ``deadline`` at the latest: a record in it is that old."""
        batch.deadline = min(batch.deadline, deadline)
        self._next_expiry = min(self._next_expiry, deadline)

    def expired(self, now: float, most: float = float("inf")) -> list[ProducerBatch]:
        """The batches whose ``delivery_timeout_ms`` is over, sent or not.

        Once these have ``most`` records, the others are left for the next call.
        """
        if now < self._next_expiry:
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
        self._next_expiry = min(rest, default=float("inf"))
        return late

    def next_expiry(self) -> float | None:
        """The time to look for expired batches again; None: no batch is left."""
        return self._next_expiry if self._batches else None
