"""One task of a write, in an executor's Python worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from aioproducer.errors import IllegalStateError
from aioproducer.spark.exactly_once import Batch, Begun, TaskOutcome, abort
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.producer_pool import get_pooled_producer
from aioproducer.spark.report import WriteReport
from aioproducer.spark.row_writer import RowWriter
from aioproducer.spark.task_partitions import TaskPartitions
from aioproducer.spark.worker_start import start_worker
from aioproducer.sync import Producer

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
        raise IllegalStateError(
            f"task {attempt.task} runs again (attempt {attempt.number}), after a "
            "failure or by spark.speculation. With exactly_once the whole write must "
            "be repeated: brokers would treat the rows of this attempt as duplicates of the first "
            "attempt's. Turn spark.speculation off, and look for the "
            "error of attempt 0 in Spark's log; with spark.task.maxFailures=1 Spark "
            "raises that error"
        )
    try:
        return _run_in_transaction(plan, begun, attempt, rows)
    except BaseException:
        # No batch with a failed task is committed, so nobody has to wait for its end. In version 1
        # of the protocol the same epoch could still commit, so there the commit's side aborts.
        if begun.handle.version >= 2:
            abort(plan, begun)
        raise


def _run_in_transaction(
    plan: SinkPlan, begun: Begun, attempt: Attempt, rows: Iterator[pa.RecordBatch]
) -> TaskOutcome:
    if begun.is_written(attempt.batch):
        for _ in rows:
            pass  # Spark waits for its rows to be read
        return TaskOutcome(WriteReport(), begun, attempt.batch)
    # Epochs of version 2 grow by two for each transaction.
    write = begun.handle.epoch // begun.handle.version
    shift = write if attempt.batch is None else attempt.batch.number
    partitions = TaskPartitions(attempt.task, shift, attempt.id)
    with Producer(plan.config(), transaction=begun.handle) as producer:
        report = RowWriter(producer, plan, partitions).write(rows)
    return TaskOutcome(report, begun, attempt.batch)
