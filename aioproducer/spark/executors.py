"""Writes that the driver's own code starts and waits for: DataFrames, and micro-batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from aioproducer.errors import IllegalStateError
from aioproducer.spark.exactly_once import Begun, abort, begin, commit
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
        told = rows.mapInArrow(partial(_write_and_tell, plan, begun), "outcome binary").collect()
        outcomes = [pickle.loads(row.outcome) for row in told]
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
    outcome = run_task(plan, begun, rows)
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([pickle.dumps(outcome)], pa.binary())})


def _local_property(df: DataFrame) -> Callable[[str], str | None]:
    """The local properties of the calling thread; Spark Connect has none."""
    try:
        return df.sparkSession.sparkContext.getLocalProperty
    except PySparkException:
        return lambda name: None
