"""The Python data source ``aioproducer``: batch and streaming writes of Arrow batches.

Spark makes these objects anew in several processes: the writer is made and pickled where a write is
planned, unpickled for its tasks, and made (streams) or unpickled (batches) for the commit. So
a commit of a stream has its transaction from the messages of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from aioproducer.errors import ConfigError, ProducerError
from aioproducer.foundation.logs import plain_logger
from aioproducer.spark.exactly_once import (
    Begun,
    RetriableWriteError,
    TaskOutcome,
    abort,
    begin,
    commit,
    named,
)
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.planning import plan_sink
from aioproducer.spark.report import Reports, WriteReport
from aioproducer.spark.task import reason_first, run_task
from aioproducer.spark.worker_start import start_worker

logger = plain_logger(__name__)


class TransactionNotBegunError(ProducerError, PicklingError):
    """The write has no transaction; ``__cause__`` is the reason.

    It comes while a writer is pickled. Errors of any other kind Spark takes for an object that
    can't be.
    """


@dataclass(frozen=True, slots=True)
class TaskDone(WriterCommitMessage):
    """A task's message to the commit."""

    outcome: TaskOutcome


class KafkaDataSource(DataSource):
    """``df.write.format("aioproducer")`` and ``df.writeStream.format("aioproducer")``."""

    written: ClassVar[Accumulator[Reports] | None] = None
    """The accumulator for the reports of streams' commits; see :func:`register`."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "aioproducer"

    @reason_first()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """The writer of a batch write.

        Raises :class:`ConfigError` or ``SchemaRegistryError``, before any task runs.
        """
        if overwrite:
            raise ConfigError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append."
            )
        return BatchWriter(self._plan(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """The writer of a micro-batch and its commits; complete mode appends as Spark's does."""
        return StreamWriter(self._plan(schema), self.written)

    @reason_first()
    def _plan(self, schema: StructType) -> SinkPlan:
        start_worker()
        return plan_sink(dict(self.options), schema)


class _Writer:
    """The common part of batch and streaming writes."""

    def __init__(self, plan: SinkPlan) -> None:
        self.plan = plan
        self.begun: Begun | None = None

    @reason_first()
    def __getstate__(self) -> Mapping[str, Any]:
        """Begin the transaction: a writer is pickled where its write is planned, and nowhere else,
        but twice."""
        if self.plan.exactly_once and self.begun is None:
            try:
                self.begun = begin(self.plan)
            except ProducerError as error:
                said = named(error)
                if not isinstance(error, RetriableWriteError):  # which says so itself
                    said = f"sink.id {self.plan.sink_id!r}: the transaction could not begin: {said}"
                raise TransactionNotBegunError(said) from error
        return self.__dict__.copy()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        """Write the rows of a task. Raises the error that makes the task fail."""
        return TaskDone(run_task(self.plan, self.begun, iterator))

    @reason_first()
    def _commit(
        self, outcomes: Sequence[TaskOutcome], number: int | None, what: str
    ) -> WriteReport:
        start_worker()
        if self.plan.exactly_once:
            written = commit(self.plan, outcomes, number)
        else:
            written = WriteReport.of(outcome.report for outcome in outcomes)
        logger.info("%s: %s", what, written)
        return written


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of ``df.write``."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the write: all tasks have written."""
        self._commit(_outcomes(messages), self.plan.batch_id, "batch write")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort: a task failed, or the commit. At least once leaves the rows that were written."""
        if self.begun is not None:
            abort(self.plan, self.begun)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of ``df.writeStream``."""

    def __init__(self, plan: SinkPlan, written: Accumulator[Reports] | None = None) -> None:
        super().__init__(plan)
        self.written = written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the micro-batch: all its tasks have written."""
        outcomes = _outcomes(messages)
        report = self._commit(outcomes, batchId, f"micro-batch {batchId}")
        if self.written is not None:
            for batch in {outcome.batch for outcome in outcomes if outcome.batch is not None}:
                self.written.add({(batch.query, batch.number): report})

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort: a task failed, or the commit, or the query was stopped. At least once leaves the
        rows that were written, and the replay writes them again."""
        outcomes = _outcomes(messages)
        for begun in {outcome.begun for outcome in outcomes if outcome.begun is not None}:
            abort(self.plan, begun)


def _outcomes(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutcome]:
    return [message.outcome for message in messages if isinstance(message, TaskDone)]
