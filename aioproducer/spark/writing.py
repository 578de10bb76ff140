"""What a task does with its rows: they are in Kafka when it returns, or it raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from aioproducer.bulk import SendReport
from aioproducer.errors import IllegalStateError, OutOfOrderSequenceNumberError, ProducerError
from aioproducer.spark.exactly_once import ADVICE
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.report import WriteReport
from aioproducer.spark.rows import by_topic, free_rows, placed
from aioproducer.sync import Producer

_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of rows that are sent by one call; the next ones are read meanwhile."""


class RowsNotWrittenError(Exception):
    """A task could not write its rows. The text says it all: Spark passes on nothing else."""


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """One partition of each topic for each of many tasks."""

    task: int
    shift: int
    """By how many partitions, so that not always the same ones are taken."""

    def among(self, partitions: Sequence[int], topic: str) -> int:
        """Raises :class:`IllegalStateError` where there are more tasks than partitions."""
        count = len(partitions)
        if self.task >= count:
            raise IllegalStateError(
                f"task {self.task} has rows without a key, and {topic!r} has {count} partitions. "
                "With exactly_once each partition takes the rows of one task: write "
                f"df.coalesce({count})"
            )
        return partitions[(self.task + self.shift) % count]


@dataclass(slots=True)
class RowWriter:
    """Sends the rows of one task.

    ``own_place``: rows that may go anywhere go to a partition that no other task takes, instead of
    those that the partitioner would choose.
    """

    producer: Producer
    plan: SinkPlan
    own_place: OwnPlace | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteReport:
        """Send every row and wait for its fate; rows of one partition in their order.

        Raises:
            RowsNotWrittenError: a row could not be written, or has no topic.
        """
        reports: list[WriteReport] = []
        with ThreadPoolExecutor(1, "aioproducer-spark") as beside:
            sending: Future[list[WriteReport]] | None = None
            for chunk in _chunks(batches):
                if sending is not None:
                    reports += sending.result()
                sending = beside.submit(self._send, chunk)
            if sending is not None:
                reports += sending.result()
        return WriteReport.of(reports)

    def _send(self, rows: pa.RecordBatch) -> list[WriteReport]:
        reports = []
        for topic, columns in by_topic(rows, self.plan):
            try:
                columns = self._in_own_place(topic, columns)
                report = self.producer.send_many(topic, columns)
            except ProducerError as error:
                raise _not_written(topic, len(columns), len(columns), error) from error
            if report.first_failure is not None:
                raise _not_written(
                    topic, report.failed, report.sent, report.first_failure
                ) from report.first_failure
            reports.append(_report(report))
        return reports

    def _in_own_place(self, topic: str, columns: pa.RecordBatch) -> pa.RecordBatch:
        if self.own_place is None or not (free := free_rows(columns)).true_count:
            return columns
        partition = self.own_place.among(self.producer.partitions_for(topic), topic)
        return placed(columns, free, partition)


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
        advice = f" (perhaps another task wrote into its partition: {ADVICE})"
    return RowsNotWrittenError(
        f"{failed} of {of} rows for topic {topic!r} were not written: "
        f"{type(error).__name__}: {error}{advice}"
    )


def _report(report: SendReport) -> WriteReport:
    return WriteReport(report.delivered, report.ranges)
