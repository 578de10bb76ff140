"""One task of a write, in an executor's Python worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from aioproducer.errors import IllegalStateError
from aioproducer.spark.archives import forget_archives
from aioproducer.spark.exactly_once import Batch, Begun, TaskOutcome, abort
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.pool import get_pooled_producer
from aioproducer.spark.report import WriteReport
from aioproducer.spark.writing import OwnPlace, RowWriter
from aioproducer.sync import Producer

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of which task this is, and of which batch."""

    task: int
    number: int
    batch: Batch | None
    """None: the write has no number, and so no marker."""

    @classmethod
    def here(cls, plan: SinkPlan) -> Attempt:
        """Raises :class:`IllegalStateError` outside of a task."""
        context = TaskContext.get()
        if context is None:
            raise IllegalStateError("rows are written in a task of Spark alone")
        query = context.getLocalProperty(_QUERY) or ""
        said = context.getLocalProperty(_BATCH) if query else None
        number = plan.batch_id if plan.batch_id is not None else said
        return cls(
            context.partitionId(),
            context.attemptNumber(),
            None if number is None else Batch(int(number), query),
        )


def run_task(plan: SinkPlan, begun: Begun | None, rows: Iterator[pa.RecordBatch]) -> TaskOutcome:
    """Write the rows of a task. Whatever it raises makes the task fail."""
    forget_archives()
    attempt = Attempt.here(plan)
    if begun is None:
        with get_pooled_producer(plan.config()) as pooled:
            return TaskOutcome(RowWriter(pooled, plan).write(rows), None, attempt.batch)
    if attempt.number > 0:
        # Nothing is aborted: by spark.speculation the first attempt may be well.
        raise IllegalStateError(
            f"task {attempt.task} runs for the second time (attempt {attempt.number}), after a "
            "failure or by spark.speculation. With exactly_once the whole write has to come again: "
            "brokers would take rows of this attempt for those of the first. Switch "
            "spark.speculation off, and look for the error of attempt 0"
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
        return TaskOutcome(WriteReport(), begun, attempt.batch, skipped=True)
    own_place = OwnPlace(attempt.task, attempt.batch.number if attempt.batch else 0)
    with Producer(plan.config(), transaction=begun.handle) as producer:
        report = RowWriter(producer, plan, own_place).write(rows)
    return TaskOutcome(report, begun, attempt.batch)
