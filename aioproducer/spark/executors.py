"""Writes that the driver's own code starts and waits for: DataFrames, and micro-batches.

The tasks report in JSON. With Spark Connect a server hands their reports on, and to unpickle one
would let it run code here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from aioproducer.engine.bulk.send_report import OffsetRange
from aioproducer.errors import IllegalStateError
from aioproducer.model import TopicPartition
from aioproducer.spark.exactly_once import Batch, Begun, TaskOutcome, abort, begin, commit
from aioproducer.spark.plan import Guarantee, Option, SinkPlan, check_names, option_texts
from aioproducer.spark.planning import plan_sink
from aioproducer.spark.report import WriteReport
from aioproducer.spark.task import QUERY, batch_of, run_task


def publish_partitions(df: DataFrame, **options: Option) -> WriteReport:
    """Write ``df`` from the executors. Returns the number of records and their offsets.

    This does the same as :meth:`DataFrame.write` with ``format("aioproducer")``, with the same
    options (``**{"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}``), in one Spark
    job. The same rule for secrets applies: an option that Spark would not redact must refer to its
    secret (``${env:NAME}``).

    Raises:
        ConfigError: an option or a column is wrong; nothing ran.
        SchemaRegistryError: the registry refused a schema, or is unavailable; nothing ran.
        pyspark.errors.PythonException: a task failed; the text gives the reason. With
            ``exactly_once`` nothing of ``df`` is then visible.
        ProducerError: the transaction could not be begun or committed.
    """
    given = option_texts(options)
    check_names(given)
    plan = plan_sink(given, df.schema)
    begun = begin(plan) if plan.exactly_once else None
    try:
        rows = df.select(*plan.columns)
        told = rows.mapInArrow(partial(_write_and_tell, plan, begun), "outcome string").collect()
        outcomes = [_outcome(row.outcome, begun) for row in told]
        if begun is not None:
            batch = batch_of(plan, _local_property(df))
            return commit(plan, outcomes, None if batch is None else batch.number, begun)
    except BaseException:
        if begun is not None:
            abort(plan, begun)
        raise
    return WriteReport.of(outcome.report for outcome in outcomes)


def foreach_batch(
    *, on_report: Callable[[int, WriteReport], None] | None = None, **options: Option
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch()`` that writes each micro-batch.

    ``on_report(batch_id, report)`` is called after each micro-batch. The options are those of
    :func:`publish_partitions`. With ``exactly_once``, a micro-batch that is repeated after its
    commit writes nothing.

    Raises:
        ConfigError: an option does not exist.
    """

    def publish(batch: DataFrame, batch_id: int) -> None:
        if is_exactly_once and not _local_property(batch)(QUERY):
            raise IllegalStateError(
                "foreach_batch() with exactly_once needs the id of its streaming "
                "query, which Spark provides neither with PYSPARK_PIN_THREAD=false nor with Spark "
                "Connect: use writeStream.format('aioproducer')"
            )
        numbered = {"sink.batch.id": batch_id} if is_exactly_once else {}
        report = publish_partitions(batch, **options, **numbered)
        if on_report is not None:
            on_report(batch_id, report)

    check_names(options)
    given = {name.lower(): value for name, value in options.items()}
    is_exactly_once = given.get("delivery.guarantee") == Guarantee.EXACTLY_ONCE
    return publish


def _write_and_tell(
    plan: SinkPlan, begun: Begun | None, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    outcome = _told(run_task(plan, begun, rows))
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([outcome], pa.string())})


def _told(outcome: TaskOutcome) -> str:
    """The outcome of a task, for the process that started the write; it knows the transaction."""
    ranges = [
        [*place, there.first, there.last, there.count]
        for place, there in outcome.report.ranges.items()
    ]
    batch = outcome.batch and [outcome.batch.number, outcome.batch.query]
    return json.dumps({"records": outcome.report.records, "ranges": ranges, "batch": batch})


def _outcome(told: Any, begun: Begun | None) -> TaskOutcome:
    """The outcome in the text of :func:`_told`, of a write in the transaction ``begun``.

    Raises:
        IllegalStateError: the text is not a report.
    """
    try:
        found = json.loads(told)
        report = WriteReport(
            _checked(found["records"], int),
            {
                TopicPartition(_checked(topic, str), _checked(partition, int)): OffsetRange(
                    *(_checked(each, int) for each in (first, last, count))
                )
                for topic, partition, first, last, count in found["ranges"]
            },
        )
        batch = found["batch"]
        if batch is not None:
            number, query = batch
            batch = Batch(_checked(number, int), _checked(query, str))
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise IllegalStateError(
            f"a task of the write did not report its records ({str(error)[:200]}); do the "
            "executors have this version of aioproducer?"
        ) from None
    return TaskOutcome(report, begun, batch)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _local_property(df: DataFrame) -> Callable[[str], str | None]:
    """The local properties of the calling thread; Spark Connect has none."""
    try:
        return df.sparkSession.sparkContext.getLocalProperty
    except PySparkException:
        return lambda name: None
