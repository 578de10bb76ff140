"""A task writes its rows: they are in Kafka when it returns, or it raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from aioproducer.engine.bulk.send_report import SendReport
from aioproducer.errors import OutOfOrderSequenceNumberError, ProducerError
from aioproducer.spark.exactly_once import ADVICE
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.report import WriteReport
from aioproducer.spark.rows import by_topic
from aioproducer.spark.task_partitions import TaskPartitions
from aioproducer.sync import Producer

_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of rows that are sent by one call; the next ones are read meanwhile."""

_TOPICS_AT_ONCE: Final = 32
"""The topics of one call: each of them waits until its rows are in Kafka."""


class RowsNotWrittenError(ProducerError):
    """A task could not write its rows. The text says it all: Spark passes on nothing else."""


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
    if isinstance(error, OutOfOrderSequenceNumberError):
        advice = (
            f" (another task has written into its partition: {ADVICE}; or Spark has run the task "
            "again: repeat the whole write)"
        )
    return RowsNotWrittenError(
        f"{failed} of {of} rows for topic {topic!r} were not written: "
        f"{type(error).__name__}: {error}{advice}"
    )


def _report(report: SendReport) -> WriteReport:
    return WriteReport(report.delivered, report.ranges)
