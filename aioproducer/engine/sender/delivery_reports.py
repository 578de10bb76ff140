"""The reports of outcomes to metrics, log, observer, and the hook ``on_failed``. No I/O.

A failed batch leaves a copy of its records' bytes, because its memory goes back to the pool. The
bytes become records when the hook is about to take them. Pending records that fail are counted one
by one, and one line reports many.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aioproducer.engine.accumulator import PendingRecord, ProducerBatch, RecordAccumulator
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.observer import (
    BatchOutcome,
    Observer,
    ObserverSlot,
    RequestOutcome,
    observer_failed,
)
from aioproducer.engine.records.field_reader import read_written
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import ModuleLogger, counted
from aioproducer.model import FailedRecord, Node, NodeId, TopicPartition

logger = ModuleLogger(__name__)

_BOOKKEEPING: Final = 100
"""Bytes that a single record takes in addition to its key, value and headers."""


class _Lot:
    """Records that failed together; ``size``: the bytes that they take."""

    __slots__ = ("left", "records", "size")

    def __init__(self, records: Iterator[FailedRecord], count: int, size: int) -> None:
        self.records = records
        self.left = count
        self.size = size


class FailedRecordQueue:
    """Failed records, the oldest first, in at most ``capacity`` bytes; those beyond are dropped.

    ``wake`` is called when records have come. ``concerns`` returns False for the errors of records
    that nobody wants.
    """

    def __init__(
        self,
        capacity: int,
        wake: Callable[[], None],
        concerns: Callable[[ProducerError], bool] = lambda _error: True,
    ) -> None:
        self.added = 0
        """The number of records that came and were not dropped."""
        self.taken = 0
        """The number of records that were taken out."""
        self._capacity = capacity
        self._wake = wake
        self._concerns = concerns
        self._lots: deque[_Lot] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self.added - self.taken

    def add_batch(
        self, batch: ProducerBatch, error: ProducerError, record_errors: Mapping[int, ProducerError]
    ) -> None:
        """Add the records of ``batch``, which failed with ``error`` or with their own error."""
        if self._concerns(error):
            data = bytes(batch.builder.records)
            records = _read(
                data,
                batch.builder.base_timestamp_ms,
                batch.count,
                batch.topic_partition,
                (error, record_errors),
            )
            self._add(_Lot(records, batch.count, len(data)), batch.topic_partition.topic)

    def add_pending(self, error: ProducerError, records: Sequence[PendingRecord]) -> None:
        """Add pending records that failed with ``error``; those without bytes are left out."""
        if self._concerns(error):
            for record in records:
                if record.serialize is None:
                    lot = _Lot(iter((_failed(record, error),)), 1, record.size + _BOOKKEEPING)
                    self._add(lot, record.topic)

    def _add(self, lot: _Lot, topic: str) -> None:
        if self._lots and self._size + lot.size > self._capacity:
            logger.repeated(
                logging.ERROR,
                "dropped",
                "on_failed does not get %s of topic %s: records fail faster, and %s wait",
                counted(lot.left, "failed record"),
                topic,
                counted(self._size, "byte"),
                records=lot.left,
                topic=topic,
            )
            return
        self._lots.append(lot)
        self._size += lot.size
        self.added += lot.left
        self._wake()

    def take(self, most_records: int, most_bytes: int) -> list[FailedRecord]:
        """Remove and return the oldest records: of one lot at least one, and no record twice.

        The call ends after ``most_records``, or once the keys and values have ``most_bytes``.
        """
        taken: list[FailedRecord] = []
        size = 0
        while self._lots and len(taken) < most_records and size < most_bytes:
            lot = self._lots[0]
            for record in islice(lot.records, most_records - len(taken)):
                taken.append(record)
                lot.left -= 1
                size += len(record.key or b"") + len(record.value or b"")
                if size >= most_bytes:
                    break
            if not lot.left:
                self._lots.popleft()
                self._size -= lot.size
        self.taken += len(taken)
        return taken


def _read(
    data: bytes,
    base_timestamp_ms: int,
    count: int,
    topic_partition: TopicPartition,
    errors: tuple[ProducerError, Mapping[int, ProducerError]],
) -> Iterator[FailedRecord]:
    otherwise, own = errors
    for index, record in enumerate(read_written(memoryview(data), base_timestamp_ms, count)):
        error = own.get(index, otherwise)
        yield FailedRecord(
            *topic_partition,
            record.key,
            record.value,
            record.headers,
            record.timestamp_ms,
            error,
            error.may_have_been_written,
        )


def _failed(record: PendingRecord, error: ProducerError) -> FailedRecord:
    value = record.record
    return FailedRecord(
        value.topic,
        value.partition,
        None if value.key is None else bytes(value.key),
        None if value.value is None else bytes(value.value),
        tuple((name, None if each is None else bytes(each)) for name, each in value.headers),
        value.timestamp_ms,
        error,
        error.may_have_been_written,
    )


class PendingFailures:
    """Fails records before they are in a batch."""

    def __init__(self, accumulator: RecordAccumulator, metrics: ProducerMetrics) -> None:
        self._pending = accumulator.pending
        self._topic_outcomes = accumulator.topic_outcomes
        self._metrics = metrics

    def fail(
        self,
        topic: str,
        records: Sequence[PendingRecord],
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> int:
        """Fail those of ``records`` for ``topic`` that still wait. Returns their number.

        ``others_may_pass``: the error says nothing about other records of the topic.
        """
        failed = self._pending.fail(records, error)
        if failed:
            self._count(topic, failed, error, now, others_may_pass=others_may_pass)
        return failed

    def _count(
        self,
        topic: str,
        failed: int,
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> None:
        self._metrics.records_failed(topic, failed, now)
        self._topic_outcomes.failed(topic, failed, error, now, others_may_pass=others_may_pass)

    def count_refused(self, now: float) -> None:
        """Count the records that no batch could take, and that have failed."""
        for topic, failed, error in self._pending.take_refused():
            self._count(topic, failed, error, now)
            self.tell(topic, failed, error)

    def tell(self, topic: str, failed: int, error: ProducerError) -> None:
        """Write a line about records that have failed."""
        logger.repeated(
            logging.ERROR,
            ("failed", type(error)),
            "%s for %s failed: %s",
            counted(failed, "pending record"),
            topic,
            error,
            records=failed,
            topic=topic,
            error=error,
        )


class DeliveryReports:
    """Counts outcomes, and passes them to the observer, whose errors are logged.

    ``failed_records``: takes the records of failed batches; None: nobody wants them.
    """

    def __init__(
        self,
        metrics: ProducerMetrics,
        observed: ObserverSlot,
        metadata: Metadata,
        wall_clock_ns: Callable[[], int],
        failed_records: FailedRecordQueue | None = None,
    ) -> None:
        self._metrics = metrics
        self.observed = observed
        """The producer's observer, if it has one."""
        self._metadata = metadata
        self._wall_clock_ns = wall_clock_ns
        self._failed_records = failed_records

    def delivered(self, batch: ProducerBatch, now: float) -> None:
        """``batch`` is in the log, and its futures are about to be resolved."""
        builder = batch.builder
        self._metrics.records_delivered(builder.count, builder.marks, self._wall_clock_ns(), now)
        if self.observed.observer is not None:
            _tell_batch(self.observed.observer, batch, None, now)

    def retried(self, batch: ProducerBatch, node: NodeId, now: float) -> None:
        """``batch`` is put back, after an attempt at ``node``."""
        self._metrics.records_retried(batch.topic_partition.topic, batch.count, now, node)

    def split(self, now: float) -> None:
        """A batch was split."""
        self._metrics.batch_split(now)

    def failed(
        self,
        batch: ProducerBatch,
        error: ProducerError,
        others: ProducerError,
        record_errors: Mapping[int, ProducerError],
        now: float,
    ) -> None:
        """``batch`` has failed for good with ``error``, and still has its records.

        The record at an index failed with its error in ``record_errors``, or with ``others``.
        """
        if self._failed_records is not None:
            self._failed_records.add_batch(batch, others, record_errors)
        node = batch.node if batch.node >= 0 else None
        self._metrics.records_failed(batch.topic_partition.topic, batch.count, now, node)
        if self.observed.observer is not None:
            _tell_batch(self.observed.observer, batch, error, now)

    def request_ended(
        self, observer: Observer, request: ProduceRequest, completion: Completion
    ) -> None:
        """Tell ``observer`` that a produce request has its response, or failed as a whole."""
        node = completion.node
        known = self._metadata.snapshot.brokers.get(node) if isinstance(node, int) else None
        outcome = RequestOutcome(
            known or Node(int(node), "", -1),
            {batch.topic_partition: (batch.count, len(data)) for batch, data in request.batches},
            completion.latency,
            completion.error,
        )
        _tell(observer, observer.request_ended, outcome)


def _tell_batch(
    observer: Observer, batch: ProducerBatch, error: BaseException | None, now: float
) -> None:
    outcome = BatchOutcome(
        batch.topic_partition, batch.node, batch.count, batch.size, now - batch.created, error
    )
    _tell(observer, observer.batch_ended, outcome)


def _tell(observer: Observer, tell: Callable[[Any], object], outcome: object) -> None:
    try:
        tell(outcome)
    except Exception as error:
        observer_failed(error, "%r failed for %r", observer, outcome)
