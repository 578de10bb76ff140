"""One task of a write, in an executor's Python worker.

The rows of a task are in Kafka when the task returns, or it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from aioproducer.engine.bulk.send_report import OffsetRange, SendReport
from aioproducer.errors import (
    DuplicateSequenceNumberError,
    IllegalStateError,
    OutOfOrderSequenceNumberError,
    ProducerError,
)
from aioproducer.spark.exactly_once import (
    REPEAT,
    Batch,
    Begun,
    RetriableWriteError,
    RowsNotWrittenError,
    TaskFailure,
    TaskOutcome,
    abort,
)
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.producer_pool import get_pooled_producer
from aioproducer.spark.report import WriteReport
from aioproducer.spark.rows import TaskPartitions, by_topic
from aioproducer.spark.worker_start import start_worker
from aioproducer.sync import Producer

_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of rows that are sent by one call; the next ones are read meanwhile."""

_TOPICS_AT_ONCE: Final = 32
"""The topics of one call: each of them waits until its rows are in Kafka."""

_READING_ON_SECONDS: Final = 5.0
"""The longest time for which a failed task reads on, so that its reason reaches the driver."""


@dataclass(slots=True)
class RowWriter:
    """Sends the rows of one task. ``partitions``: of the task, in a transaction."""

    producer: Producer
    plan: SinkPlan
    partitions: TaskPartitions | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteReport:
        """Send every row and wait for its outcome; rows of one partition in their order.

        Raises:
            RowsNotWrittenError: a row could not be written.
            SerializationError: a row has no topic, or does not fit its schema.
        """
        reports: list[WriteReport] = []
        with ThreadPoolExecutor(1, "aioproducer-spark") as beside:
            sending: Future[list[WriteReport]] | None = None

            def read() -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    if sending is not None and sending.done():
                        sending.result()  # raises now if it failed, whatever is still to be read
                    yield batch

            for chunk in _chunks(read()):
                topics = list(by_topic(chunk, self.plan))  # encoded while the chunk before is sent
                if sending is not None:
                    reports += sending.result()
                sending = beside.submit(self._send, topics)
            if sending is not None:
                reports += sending.result()
        return WriteReport.of(reports)

    def _send(self, topics: Sequence[tuple[str, pa.RecordBatch]]) -> list[WriteReport]:
        if len(topics) == 1:
            return self._send_topic(topics[0])
        with ThreadPoolExecutor(_TOPICS_AT_ONCE, "aioproducer-spark-topic") as side_by_side:
            return list(chain.from_iterable(side_by_side.map(self._send_topic, topics)))

    def _send_topic(self, rows: tuple[str, pa.RecordBatch]) -> list[WriteReport]:
        topic, columns = rows
        return [self._send_part(topic, part) for part in self._parts(topic, columns)]

    def _parts(self, topic: str, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.partitions is None:
            yield columns
            return
        try:
            yield from self.partitions.parts(topic, columns, self.producer.partitions_for(topic))
        except ProducerError as error:
            raise _not_written(topic, len(columns), len(columns), error) from error

    def _send_part(self, topic: str, rows: pa.RecordBatch) -> WriteReport:
        try:
            report = self.producer.send_many(topic, rows)
        except ProducerError as error:
            raise _not_written(topic, len(rows), len(rows), error) from error
        if report.first_failure is not None:
            raise _not_written(
                topic, report.failed, report.sent, report.first_failure
            ) from report.first_failure
        return _report(report)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    chunk: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        chunk.append(batch)
        size += batch.nbytes
        if size >= _AT_ONCE:
            yield pa.concat_batches(chunk)
            chunk, size = [], 0
    if chunk:
        yield pa.concat_batches(chunk)


def _not_written(topic: str, failed: int, of: int, error: BaseException) -> RowsNotWrittenError:
    advice = ""
    if isinstance(error, OutOfOrderSequenceNumberError | DuplicateSequenceNumberError):
        advice = (
            " (an earlier attempt of the task has written into its partition: Spark runs a stage "
            "again after it has lost shuffle files)"
        )
    return RowsNotWrittenError(
        f"{failed} of {of} rows for topic {topic!r} were not written: "
        f"{type(error).__name__}: {error}{advice}"
    )


def _report(report: SendReport) -> WriteReport:
    return WriteReport(report.delivered, report.ranges)


_BATCH: Final = "streaming.sql.batchId"
QUERY: Final = "sql.streaming.queryId"
"""The local property in which Spark has the id of the streaming query."""


def batch_of(plan: SinkPlan, local_property: Callable[[str], str | None]) -> Batch | None:
    """The write's batch, by its own number or as a micro-batch; None: no number, and no marker."""
    query = local_property(QUERY) or ""
    micro_batch = local_property(_BATCH) if query else None
    number = micro_batch if plan.batch_id is None else plan.batch_id
    return None if number is None else Batch(int(number), query)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a task, with its batch."""

    task: int
    number: int
    id: int
    """Unique among the attempts of all tasks while Spark runs."""
    batch: Batch | None

    @classmethod
    def here(cls, plan: SinkPlan) -> Attempt:
        """The attempt that runs here. Raises :class:`IllegalStateError` outside of a task."""
        context = TaskContext.get()
        if context is None:
            raise IllegalStateError("rows can only be written in a Spark task")
        return cls(
            context.partitionId(),
            context.attemptNumber(),
            context.taskAttemptId(),
            batch_of(plan, context.getLocalProperty),
        )


def run_task(plan: SinkPlan, begun: Begun | None, rows: Iterator[pa.RecordBatch]) -> TaskOutcome:
    """Write the rows of a task. Any exception makes the task fail."""
    start_worker()
    attempt = Attempt.here(plan)
    if begun is None:
        with get_pooled_producer(plan.config()) as pooled:
            return TaskOutcome(RowWriter(pooled, plan).write(rows), None, attempt.batch)
    if attempt.number > 0:
        # Nothing is aborted: by spark.speculation the first attempt may be well.
        raise RetriableWriteError(
            f"task {attempt.task} runs again (attempt {attempt.number}), because Spark lost its "
            "first attempt or an executor, or by spark.speculation, which must be off. Brokers "
            "would take its rows for duplicates of the first attempt's. For the cause look for "
            f"'Lost task {attempt.task}.0' in the driver's log. {REPEAT}"
        )
    # Epochs of version 2 grow by two for each transaction.
    write = begun.handle.epoch // begun.handle.version
    shift = write if attempt.batch is None else attempt.batch.number
    partitions = TaskPartitions(attempt.task, shift, attempt.id)
    try:
        report = _run_in_transaction(plan, begun, attempt, partitions, rows)
    except BaseException as error:
        # No batch with a failed task is committed, so nobody has to wait for its end. In version 1
        # of the protocol the same epoch could still commit, so there the commit's side aborts.
        if begun.handle.version >= 2:
            abort(plan, begun)
        if not isinstance(error, Exception):
            raise
        _read_on(rows, error)
        failure = TaskFailure.of(attempt.task, error)
        begun_in = dict.fromkeys(partitions.begun, OffsetRange(-1, -1, 0))
        return TaskOutcome(WriteReport(0, begun_in), begun, attempt.batch, failure)
    return TaskOutcome(report, begun, attempt.batch)


def _run_in_transaction(
    plan: SinkPlan,
    begun: Begun,
    attempt: Attempt,
    partitions: TaskPartitions,
    rows: Iterator[pa.RecordBatch],
) -> WriteReport:
    if begun.is_written(attempt.batch):
        for _ in rows:
            pass  # Spark waits for its rows to be read
        return WriteReport()
    with Producer(plan.config(), transaction=begun.handle) as producer:
        return RowWriter(producer, plan, partitions).write(rows)


def _read_on(rows: Iterator[pa.RecordBatch], error: Exception) -> None:
    """Read all rows, as Spark waits for that. Raises ``error`` if they are too many."""
    until = monotonic() + _READING_ON_SECONDS
    for _ in rows:
        if monotonic() > until:
            raise error
