"""One task of a write, in an executor's Python worker.

The rows of a task are in Kafka when the task returns, or it raises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from aioproducer.engine.accumulator import AccumulatorSettings, accumulator_settings
from aioproducer.engine.bulk.send_report import OffsetRange
from aioproducer.engine.records.builder import batch_size_bound
from aioproducer.errors import (
    DuplicateSequenceNumberError,
    IllegalStateError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    ProducerError,
    RecordListTooLargeError,
    SerializationError,
)
from aioproducer.foundation.logs import counted, plain_logger
from aioproducer.spark.exactly_once import (
    Batch,
    Begun,
    RowsNotWrittenError,
    TaskFailure,
    TaskOutcome,
    TaskPartitions,
    abort,
    named,
    names_permissions,
    tells_what_may_pass,
)
from aioproducer.spark.internals import BATCH_PROPERTY, HIDE_TRACEBACK, QUERY_PROPERTY
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.producer_pool import get_pooled_producer
from aioproducer.spark.report import WriteReport
from aioproducer.spark.rows import (
    NO_TOPIC,
    as_bytes,
    by_topic,
    encoded,
    parted,
    record_headers,
    row_numbers,
    sent_names,
    too_large,
)
from aioproducer.spark.typed_columns import ColumnEncoding
from aioproducer.spark.worker_start import start_worker
from aioproducer.sync import Producer

logger = plain_logger(__name__)

_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of rows that are sent by one call; the next ones are read meanwhile."""

_TOPICS_AT_ONCE: Final = 32
"""The topics of one call: each of them waits until its rows are in Kafka."""

_TOO_LARGE: Final = (MessageTooLargeError, RecordListTooLargeError)
"""The errors of a row whose topic takes less than a batch of the producer may have."""


@contextmanager
def reason_first() -> Iterator[None]:
    """Let Spark's message begin with an error's text, instead of 30 to 60 lines of tracebacks.

    Use it in a worker process of Spark's alone: PySpark hides the traceback of the error that ends
    the process, as by ``spark.sql.execution.pyspark.udf.hideTraceback.enabled``.
    """
    try:
        yield
    except ProducerError:
        logger.debug("the write failed", exc_info=True)
        os.environ[HIDE_TRACEBACK] = "1"
        raise


BATCH: Final = "__aioproducer.errors.batch"
QUERY_ID: Final = "__aioproducer.errors.query"
"""Headers of dead letters beside those of :class:`aioproducer.failed_records.DeadLetter`."""
_LONGEST_REASON: Final = 1000
"""Characters of an error's message: it must not make the letter too large for its topic."""
_LETTERS: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("partition", pa.int32()),
    ]
)


Letters: TypeAlias = list[dict[str, Any]]
Sifted: TypeAlias = tuple[list[tuple[str, pa.RecordBatch]], Letters]
"""The rows of each topic, and the letters of those that can't be sent."""


class DeadLetters:
    """Takes out the rows of a task that no broker would take. They become records of another topic.

    ``settings``: of the producer. ``batch``: of the write.
    """

    def __init__(self, plan: SinkPlan, settings: AccumulatorSettings, batch: Batch | None) -> None:
        self._plan = plan
        self._settings = settings
        facts = {} if batch is None else {BATCH: str(batch.number), QUERY_ID: batch.query}
        self._headers = [(name, text.encode()) for name, text in facts.items() if text]

    def sift(self, rows: pa.RecordBatch) -> Sifted:
        """The rows that can be sent, encoded; and the letters of the others."""
        letters: Letters = []
        if self._plan.topic is None and rows.column("topic").null_count:
            known = rows.column("topic").is_valid()
            lost = rows.filter(pc.invert(known)).select(sent_names(self._plan))
            letters += self.of("", lost, SerializationError(NO_TOPIC))
            rows = rows.filter(known)
        topics: list[tuple[str, pa.RecordBatch]] = []
        for topic, columns in parted(rows, self._plan):
            for encoding in self._plan.encodings.values():
                columns = self._encoded(topic, columns, encoding, letters)
            large = too_large(columns, topic, self._settings)
            for row, error in large:
                letters += self.of(topic, columns.slice(row, 1), error)
            if large:
                numbers = pa.array([row for row, _ in large], pa.uint64())
                columns = columns.filter(pc.invert(pc.is_in(row_numbers(columns), numbers)))
            if len(columns):
                topics.append((topic, columns))
        return topics, letters

    def _encoded(
        self, topic: str, columns: pa.RecordBatch, encoding: ColumnEncoding, letters: Letters
    ) -> pa.RecordBatch:
        """Without the rows that do not fit: halves are tried until each of these is alone."""
        try:
            return encoded(columns, encoding, topic)
        except SerializationError as error:
            if len(columns) == 1:
                letters += self.of(topic, columns, error)
                place = columns.schema.get_field_index(encoding.column)
                none = pa.array([], pa.binary())
                return columns.slice(0, 0).set_column(place, encoding.column, none)
        half = len(columns) // 2
        parts = (columns.slice(0, half), columns.slice(half))
        return pa.concat_batches([self._encoded(topic, part, encoding, letters) for part in parts])

    def of(self, topic: str, columns: pa.RecordBatch, error: BaseException) -> Letters:
        """The letters of rows for ``topic`` that failed with ``error``.

        A value that its topic or the letter's would not take is left out; so is such a key.
        """
        # Most tasks have no use for this module.
        from aioproducer.failed_records import DeadLetter

        letters = []
        for row in columns.to_pylist():
            key, value = (as_bytes(row.get(name)) for name in ("key", "value"))
            headers = record_headers(row)
            if isinstance(error, _TOO_LARGE):
                value = None
            partition, now = row.get("partition"), time.time_ns() // 1_000_000
            why = (type(error).__name__, str(error)[:_LONGEST_REASON], False)
            letter = DeadLetter(topic, partition, key, value, headers, now, *why)
            for too_much in ({}, {"value": None}, {"key": None, "headers": ()}):
                letter = replace(letter, **too_much)
                described = [*letter.all_headers(), *self._headers]
                needed = batch_size_bound(letter.key, letter.value, described)
                if needed <= self._settings.largest_batch:
                    break
            fields = [{"key": name, "value": text} for name, text in described]
            letters.append({"value": letter.value, "key": letter.key, "headers": fields})
        return letters


def letters_batch(letters: Letters, partition: int | None) -> pa.RecordBatch:
    """The letters as rows for ``send_many()``. ``partition``: of them all; None: by their keys."""
    return pa.RecordBatch.from_pylist(
        [{**each, "partition": partition} for each in letters], _LETTERS
    )


@dataclass(slots=True)
class RowWriter:
    """Sends the rows of one task. ``partitions``: of the task, in a transaction.

    ``batch``: of the write, for dead letters.

    Rows without a topic, rows that do not fit their schema, and rows larger than a batch are found
    before any row of their chunk is sent. With a dead letter topic they become dead letters, and so
    do rows that are too large for their topic, except in a transaction, which they end. Without
    that topic, and after any other error, the task fails.
    """

    producer: Producer
    plan: SinkPlan
    partitions: TaskPartitions | None = None
    batch: Batch | None = None
    _settings: AccumulatorSettings = field(init=False)
    _dead_letters: DeadLetters | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._settings = accumulator_settings(self.producer.config, None)
        if self.plan.dead_letter_topic:
            self._dead_letters = DeadLetters(self.plan, self._settings, self.batch)

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
                sifted = self._sifted(chunk)  # encoded while the chunk before is sent
                if sending is not None:
                    reports += sending.result()
                sending = beside.submit(self._send, sifted)
            if sending is not None:
                reports += sending.result()
        return WriteReport.of(reports)

    def _sifted(self, chunk: pa.RecordBatch) -> Sifted:
        """The rows by topic, and the dead letters of those that no broker would take.

        Without a topic for them, such a row fails the task before any row of the chunk is sent.
        """
        if self._dead_letters is not None:
            return self._dead_letters.sift(chunk)
        topics = list(by_topic(chunk, self.plan))
        for topic, columns in topics:
            if found := too_large(columns, topic, self._settings):
                raise _not_written(topic, len(found), len(columns), found[0][1])
        return topics, []

    def _send(self, sifted: Sifted) -> list[WriteReport]:
        topics, letters = sifted
        reports = self._send_letters(letters)
        if len(topics) == 1:
            return reports + self._send_topic(topics[0])
        with ThreadPoolExecutor(_TOPICS_AT_ONCE, "aioproducer-spark-topic") as side_by_side:
            return reports + list(chain.from_iterable(side_by_side.map(self._send_topic, topics)))

    def _send_letters(self, letters: Letters) -> list[WriteReport]:
        if not letters:
            return []
        topic, partition = self.plan.dead_letter_topic, None
        if self.partitions is not None:
            partition = self._free_partition(topic)
        reports = self._send_topic((topic, letters_batch(letters, partition)))
        return [replace(each, records=0, dead_letters=each.records) for each in reports]

    def _free_partition(self, topic: str) -> int:
        """The partition of the dead letter topic that no other task writes to."""
        assert self.partitions is not None
        there = self.producer.partitions_for(topic)
        try:
            return self.partitions.free(topic, there)
        except IllegalStateError:
            raise IllegalStateError(
                f"the dead letter topic {topic!r} has {counted(len(there), 'partition')}, too few "
                "for the tasks of this write. With exactly_once each task needs its own: "
                "give the topic as many partitions as the write has tasks"
            ) from None

    def _send_topic(self, rows: tuple[str, pa.RecordBatch]) -> list[WriteReport]:
        topic, columns = rows
        parts = self._parts(topic, columns)
        return list(chain.from_iterable(self._send_part(topic, part) for part in parts))

    def _parts(self, topic: str, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.partitions is None:
            yield columns
            return
        try:
            yield from self.partitions.parts(topic, columns, self.producer.partitions_for(topic))
        except ProducerError as error:
            raise _not_written(topic, len(columns), len(columns), error) from error

    def _send_part(self, topic: str, rows: pa.RecordBatch) -> list[WriteReport]:
        try:
            report = self.producer.send_many(topic, rows)
        except ProducerError as error:
            raise _not_written(topic, len(rows), len(rows), error) from error
        written = WriteReport.of_rows(rows, report)
        if report.first_failure is None:
            return [written]
        refused = report.failures
        if (
            self._dead_letters is None
            or self.partitions is not None  # the transaction can only be aborted
            or topic == self.plan.dead_letter_topic
            or not all(isinstance(error, _TOO_LARGE) for error in refused.values())
        ):
            raise _not_written(
                topic, report.failed, report.sent, report.first_failure
            ) from report.first_failure
        letters: Letters = []
        for row, why in refused.items():
            letters += self._dead_letters.of(topic, rows.slice(row, 1), why)
        return [written, *self._send_letters(letters)]


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
        f"{failed} of {of} rows for topic {topic!r} were not written: {named(error)}{advice}"
    )


def batch_of(plan: SinkPlan, local_property: Callable[[str], str | None]) -> Batch | None:
    """The write's batch, by its own number or as a micro-batch; None: no number, and no marker."""
    query = local_property(QUERY_PROPERTY) or ""
    micro_batch = local_property(BATCH_PROPERTY) if query else None
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


@reason_first()
def run_task(plan: SinkPlan, begun: Begun | None, rows: Iterator[pa.RecordBatch]) -> TaskOutcome:
    """Write the rows of a task. Any exception makes the task fail."""
    start_worker()
    attempt = Attempt.here(plan)
    if begun is None:
        with tells_what_may_pass(), get_pooled_producer(plan.config()) as pooled:
            return TaskOutcome(
                RowWriter(pooled, plan, None, attempt.batch).write(rows), None, attempt.batch
            )
    if (failure := TaskFailure.of_attempt(attempt.task, attempt.number)) is not None:
        _read_on(rows)  # an error of the query itself comes again, and is the reason
        return TaskOutcome(WriteReport(), begun, attempt.batch, failure)
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
        _read_on(rows)
        failure = TaskFailure.of(attempt.task, error)
        begun_in = dict.fromkeys(partitions.begun, OffsetRange(-1, -1, 0))
        return TaskOutcome(WriteReport(0, begun_in), begun, attempt.batch, failure)
    return TaskOutcome(report, begun, attempt.batch)


@names_permissions
def _run_in_transaction(
    plan: SinkPlan,
    begun: Begun,
    attempt: Attempt,
    partitions: TaskPartitions,
    rows: Iterator[pa.RecordBatch],
) -> WriteReport:
    if begun.is_written(attempt.batch, fail_on_data_loss=plan.fail_on_data_loss):
        _read_on(rows)
        return WriteReport()
    with Producer(plan.config(), transaction=begun.handle) as producer:
        return RowWriter(producer, plan, partitions, attempt.batch).write(rows)


def _read_on(rows: Iterator[pa.RecordBatch]) -> None:
    """Read all rows, as Spark waits for that: a task that raises is only tried again, in vain."""
    for _ in rows:
        pass
