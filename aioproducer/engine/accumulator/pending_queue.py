# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The queue of pending records: in the order of their ``send()`` calls, until they get a batch.

The docstring of :mod:`aioproducer.engine.accumulator` says what happens when memory is full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from aioproducer.engine.accumulator.batch_queue import BatchQueue
from aioproducer.engine.accumulator.flushes import Flushes
from aioproducer.engine.accumulator.memory_quota import Grant, MemoryQuota
from aioproducer.engine.accumulator.partition import Partition
from aioproducer.engine.accumulator.pending_records import PendingRecord, PendingRecords
from aioproducer.engine.accumulator.producer_batch import ProducerBatch
from aioproducer.engine.accumulator.settings import AccumulatorSettings, BatchSizes
from aioproducer.errors import NotPreparedError, ProducerError

PendingFailed: TypeAlias = Callable[[ProducerError, Sequence[PendingRecord]], None]


class PendingQueue:
    """Gives memory to pending records, and removes cancelled, late and failed ones.

    It is the front of :class:`PendingRecords`, which keeps the records and counts their bytes.
    ``on_failed`` is called with an error, and the records that failed with it; records that their
    callers have cancelled are not among them.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        sizes: BatchSizes,
        records: PendingRecords,
        batches: BatchQueue,
        memory_quota: MemoryQuota,
        flushes: Flushes,
        wake: Callable[[], None],
        on_failed: PendingFailed | None,
    ) -> None:
        self._one_record_each = settings.batch_size <= 1
        self._sizes = sizes
        self._records = records
        self._batches = batches
        self._memory_quota = memory_quota
        self._flushes = flushes
        self._wake = wake
        self._on_failed = on_failed
        self.preparation_errors: dict[str, BaseException] = {}
        """By topic, the last error of a serializer that can't be prepared at present."""
        self.waits: list[float] = []
        """See :meth:`take_waits`."""
        self.refused: list[tuple[str, ProducerError]] = []
        """The topics and errors of records that no batch could take; see :meth:`take_refused`."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PendingRecord]:
        return iter(self._records)

    @property
    def oldest_sent(self) -> float | None:
        """The time of the ``send()`` of the oldest record, in clock seconds; None: there is none.

        Any thread may ask.
        """
        oldest = next(iter(self._records), None)
        return None if oldest is None else oldest.sent

    def expired(self, now: float, most: int | None = None) -> list[PendingRecord]:
        """The records whose deadline has passed, or the first ``most`` of them."""
        return self._records.expired(now, most)

    @property
    def awaited_topics(self) -> Collection[str]:
        """The topics with records that wait for metadata."""
        return self._records.awaiting_metadata.topics

    def is_awaited(self, topic: str) -> bool:
        """True if a record waits for the metadata of ``topic``."""
        return topic in self._records.awaiting_metadata.topics

    def awaiting(self, topic: str) -> list[PendingRecord]:
        """The records that wait for the metadata of ``topic``."""
        return self._records.awaiting_metadata.of(topic)

    def topic_known(self, topic: str) -> list[PendingRecord]:
        """Remove and return the records that waited for the metadata of ``topic``."""
        return self._records.topic_known(topic)

    # --- records without bytes ---------------------------------------------------------------

    def has_unserialized(self, topic: str) -> bool:
        """True if a record of ``topic`` waits for its serializer."""
        return topic in self._records.unserialized.topics

    def first_unserialized(self, topic: str) -> PendingRecord | None:
        """The oldest record of ``topic`` that waits for its serializer."""
        return self._records.unserialized.first(topic)

    def serialize(self, topic: str, most: int) -> Iterator[PendingRecord]:
        """Serialize the first ``most`` records of ``topic`` that wait for it; yields each one.

        The iterator ends before the first record whose serializer is not prepared. A record that
        can't be serialized, or is too large, fails.
        """
        for _ in range(most):
            record = self.first_unserialized(topic)
            if record is None or record.serialize is None:
                return
            if record.cancelled:
                self.withdraw(record)
                continue
            try:
                value = record.serialize()
                self._records.serialized(record, value, self._sizes.checked(value))
            except NotPreparedError:
                return
            except ProducerError as error:
                self.refuse(record, error)
            else:
                yield record

    def unserialized(self, topic: str) -> list[PendingRecord]:
        """The records of ``topic`` that wait for their serializer."""
        return self._records.unserialized.of(topic)

    # --- records begin to wait ---------------------------------------------------------------

    def add(
        self,
        record: PendingRecord,
        partition: Partition | None,
        now: float,
        *,
        over_capacity: bool = False,
    ) -> None:
        """Let ``record`` wait as :meth:`let_wait` does, if there is room for it.

        ``over_capacity`` and the error: see :meth:`PendingRecords.add`.
        """
        node = None if partition is None else partition.leader
        self._records.add(record, node, over_capacity=over_capacity)
        self._flushes.began(record)
        self.let_wait(record, partition, now)

    def let_wait(self, record: PendingRecord, partition: Partition | None, now: float) -> None:
        """Let ``record`` wait for its bytes, for memory, or until its partition is known."""
        if record.serialize is not None:
            self._records.unserialized.add(record)
            return
        if partition is None:
            self._records.await_topic(record)
            return
        self._records.move(record, partition.leader)
        if partition.enqueue(record):
            self._memory_quota.wait(partition, now)
        self._wake()

    # --- their wait ends ---------------------------------------------------------------------

    def withdraw(self, record: PendingRecord) -> None:
        """Take back a record that its caller has cancelled, if it is still pending."""
        if not record.settled:
            record.take_back()
            self.settle(record)

    def withdraw_cancelled(self) -> None:
        """Take back all pending records that their callers have cancelled."""
        for record in [each for each in self._records if each.cancelled]:
            self.withdraw(record)

    def admit(self, now: float) -> list[float]:
        """Put pending records into batches while there is memory; returns the seconds waited."""
        waited: list[float] = []
        if not self._memory_quota.has_waiting:
            return waited
        while (grant := self._memory_quota.grant(now)) is not None:
            if self._fill(grant, now):
                waited.append(grant.waited)
        return waited

    def _fill(self, grant: Grant, now: float) -> bool:
        """Begin a batch with records that waited for it; False: no record fits into it."""
        partition = grant.partition
        record = self._first_pending(partition)
        if record is None or record.size > len(grant.buffer):
            self._memory_quota.release(partition, grant.buffer)
            if record is not None:  # the memory was meant for a smaller one, which is gone
                self._memory_quota.wait(partition, now)
            return False
        batch = self._batches.open(partition, grant.buffer, partition.growth, now, record.sent)
        self._wake()
        while record is not None and batch.append(record.record):
            if self._one_record_each:
                partition.close_batch()
            partition.pop_pending()
            self.joined(record, batch, now)
            record = self._first_pending(partition)
        if record is not None:
            self._batches.filled(batch)
            partition.close_batch()
            self._memory_quota.wait(partition, now)
        return True

    def needs(self, partition: Partition) -> int | None:
        """The bytes that the records of ``partition`` wait for; None: no record is pending."""
        record = self._first_pending(partition)
        if record is None:
            return None
        return self._batches.next_size(partition, record.topic, partition.growth, record.size)

    def _first_pending(self, partition: Partition) -> PendingRecord | None:
        """The oldest record that still waits for memory of ``partition``."""
        while (record := partition.first_pending) is not None:
            if record.cancelled:
                self.withdraw(record)
            if not record.settled:
                return record
            partition.pop_pending()
        return None

    def joined(self, record: PendingRecord, batch: ProducerBatch, now: float) -> None:
        """Remove ``record``, which has joined ``batch``."""
        self.waits.append(now - record.sent)
        self.settle(record, batch)

    def take_waits(self) -> list[float]:
        """The seconds that each record waited which joined a batch since the last call."""
        waits, self.waits = self.waits, []
        return waits

    def settle(self, record: PendingRecord, batch: ProducerBatch | None = None) -> None:
        """Remove ``record``, which is in ``batch``, or has its outcome."""
        self._records.remove(record)
        if batch is not None:
            self._flushes.moved(record, batch)
        self._flushes.done(record)

    def refuse(self, record: PendingRecord, error: ProducerError) -> None:
        """Fail ``record``, which no batch can take; :meth:`take_refused` reports it."""
        if self.fail([record], error):
            self.refused.append((record.topic, error))
            self._wake()

    def take_refused(self) -> list[tuple[str, ProducerError]]:
        """The topics and errors of the records refused since the last call."""
        refused, self.refused = self.refused, []
        return refused

    def fail(self, records: Iterable[PendingRecord], error: ProducerError) -> int:
        """Fail the records that are still pending with ``error``; returns their number."""
        failed = 0
        wanted: list[PendingRecord] = []
        for record in records:
            if record.settled:
                continue
            if not record.cancelled:
                wanted.append(record)
            record.fail(error)
            self.settle(record)
            failed += 1
        if failed and self._on_failed is not None:
            self._on_failed(error, wanted)
        return failed
