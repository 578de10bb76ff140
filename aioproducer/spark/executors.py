"""Writes that the driver's own code starts and waits for: DataFrames, micro-batches and queries.

A write with ``exactly_once`` is one transaction, which does not survive a lost task. So these
functions repeat what was lost: a write as a whole, a query from its checkpoint.

The tasks report in JSON. With Spark Connect a server hands their reports on, and to unpickle one
would let it run code here.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from aioproducer.engine.bulk.send_report import OffsetRange
from aioproducer.errors import ConfigError, IllegalStateError, ProducerError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import plain_logger
from aioproducer.model import TopicPartition
from aioproducer.spark.exactly_once import (
    Batch,
    Begun,
    FailureKind,
    RetriableWriteError,
    TaskFailure,
    TaskOutcome,
    abort,
    begin,
    commit,
)
from aioproducer.spark.internals import QUERY_PROPERTY
from aioproducer.spark.plan import Guarantee, Option, SinkPlan, check_names, option_texts
from aioproducer.spark.planning import plan_sink
from aioproducer.spark.report import WriteReport
from aioproducer.spark.task import batch_of, run_task

logger = plain_logger(__name__)

_LOST: Final = re.compile(
    r"(RetriableWrite|SchemaRegistryUnavailable)Error: |ExecutorLostFailure|FetchFailed"
    r"|MetadataFetchFailed|executor \S+ exited|Python worker (exited|failed)"
)
"""Spark's texts for failures after which another attempt can succeed."""


def publish_partitions(df: DataFrame, **options: Option) -> WriteReport:
    """Write ``df`` from the executors. Returns the number of records and their offsets.

    This does the same as :meth:`DataFrame.write` with ``format("aioproducer")``, with the same
    options (``**{"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}``), in one Spark
    job. The same rule for secrets applies: an option that Spark would not redact must refer to its
    secret (``${env:NAME}``).

    With ``exactly_once`` a write that fails because a task or an executor was lost, or brokers were
    not available, is aborted and repeated as a whole, after 1 s, 2 s, 4 s and so on. The option
    ``sink.attempts`` (4) is the number of attempts in all. Spark computes ``df`` again for each.
    With ``at_least_once`` Spark itself runs lost tasks again.

    Raises:
        ConfigError: an option or a column is wrong; nothing ran.
        SchemaRegistryError: the registry refused a schema, or is unavailable; nothing ran.
        RowsNotWrittenError: rows could not be written, and a repetition would not help.
        RetriableWriteError: the last attempt failed as well. With ``exactly_once`` nothing of
            ``df`` is visible after either error, unless a commit got no response.
        pyspark.errors.PythonException: a task failed; the message gives the reason.
        ProducerError: the transaction could not be begun or committed.
    """
    given = option_texts(options)
    check_names(given)
    plan = plan_sink(given, df.schema)
    if not plan.exactly_once:
        return WriteReport.of(outcome.report for outcome in _outcomes(df, plan, None))
    batch = batch_of(plan, _local_property(df))
    backoff, attempt = _backoff(), 1
    while True:
        begun = None
        try:
            begun = begin(plan)
            outcomes = _outcomes(df, plan, begun)
            return commit(plan, outcomes, None if batch is None else batch.number, begun)
        except BaseException as error:
            if begun is not None:
                abort(plan, begun)
            if attempt >= plan.attempts or not _is_lost(error):
                raise
            wait = backoff.delay(attempt)
            logger.warning(
                "sink.id %r: attempt %d of %d to write failed, and the next one begins in %.1f s: "
                "%s",
                plan.sink_id,
                attempt,
                plan.attempts,
                wait,
                _shortened(error),
            )
        time.sleep(wait)
        attempt += 1


def foreach_batch(
    *, on_report: Callable[[int, WriteReport], None] | None = None, **options: Option
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``writeStream.foreachBatch()`` that writes each micro-batch.

    ``on_report(batch_id, report)`` is called after each micro-batch. The options are those of
    :func:`publish_partitions`, which also repeats a micro-batch. With ``exactly_once``, one that is
    repeated after its commit writes nothing.

    Raises:
        ConfigError: an option does not exist.
    """

    def publish(batch: DataFrame, batch_id: int) -> None:
        if is_exactly_once and not _local_property(batch)(QUERY_PROPERTY):
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


def run_stream(start: Callable[[], StreamingQuery], *, restarts: int = 10) -> StreamingQuery:
    """Run a streaming query until it ends, and restart it after a temporary failure.

    Such a failure is a lost task or executor, or brokers or a schema registry that are unavailable.

    ::

        run_stream(rows.writeStream.format("aioproducer").options(...).start)

    ``start`` starts the query with its checkpoint, from which each restart continues. A query is
    restarted up to ``restarts`` times without a finished micro-batch in between, after 1 s, 2 s,
    4 s and so on up to a minute. Each restart is logged as a warning. Returns the query when it was
    stopped, or has processed everything that was available.

    Raises:
        pyspark.errors.StreamingQueryException: the query failed too often, or for a reason that
            would end it again, such as a wrong option or a row that can't be written.
        ConfigError: ``start`` is not a function, but a query that has already started.
    """
    if not callable(start):
        raise ConfigError(
            "run_stream() starts the query itself, even after a failure: give it the method, "
            f"run_stream(writer.start), not a {type(start).__name__} (stop() that query first)"
        )
    backoff, failures, last_id = _backoff(), 0, None
    while True:
        query = start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            failures = 1 if query.lastProgress is not None else failures + 1
            if failures > restarts or not _is_lost(error):
                raise
            if last_id not in (None, query.id):
                raise IllegalStateError(
                    f"the restarted query {query.id} does not continue {last_id}, so it would "
                    "write the same rows again: start it with the option checkpointLocation"
                ) from error
            last_id = query.id
            wait = backoff.delay(failures)
            logger.warning(
                "the streaming query %s failed, and is restarted from its checkpoint in %.1f s "
                "(failure %d in a row; the limit is %d): %s",
                query.id,
                wait,
                failures,
                restarts,
                _shortened(error),
            )
        except BaseException:  # of this thread, such as Ctrl-C
            with suppress(Exception):
                query.stop()
            raise
        time.sleep(wait)


def _backoff() -> ExponentialBackoff:
    return ExponentialBackoff(1.0, 60.0, Random())


def _shortened(error: BaseException) -> str:
    """The line of an error that says why: Spark adds the tracebacks of several processes."""
    lines = str(error).splitlines() or [""]
    return next(filter(_LOST.search, lines), lines[0]).strip()[:1000]


def _is_lost(error: BaseException) -> bool:
    """True if a write or a query that ended with ``error`` may succeed the next time."""
    return isinstance(error, RetriableWriteError) or (
        isinstance(error, Exception)
        and not isinstance(error, ProducerError)
        and _LOST.search(str(error)) is not None
    )


def _outcomes(df: DataFrame, plan: SinkPlan, begun: Begun | None) -> list[TaskOutcome]:
    rows = df.select(*plan.columns)
    told = rows.mapInArrow(partial(_write_and_tell, plan, begun), "outcome string").collect()
    return [_outcome(row.outcome, begun) for row in told]


def _write_and_tell(
    plan: SinkPlan, begun: Begun | None, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    outcome = _told(run_task(plan, begun, rows))
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([outcome], pa.string())})


_FACTS: Final = {"records": int, "dead_letters": int, "bytes": int, "compiled": bool}


def _told(outcome: TaskOutcome) -> str:
    """The outcome of a task, for the process that started the write; it knows the transaction."""
    ranges = [
        [*place, there.first, there.last, there.count]
        for place, there in outcome.report.ranges.items()
    ]
    batch = outcome.batch and [outcome.batch.number, outcome.batch.query]
    failure = outcome.failure and [outcome.failure.text, outcome.failure.kind]
    facts = {name: getattr(outcome.report, name) for name in _FACTS}
    return json.dumps({**facts, "ranges": ranges, "batch": batch, "failure": failure})


def _outcome(told: Any, begun: Begun | None) -> TaskOutcome:
    """The outcome in the text of :func:`_told`, of a write in the transaction ``begun``.

    Raises:
        IllegalStateError: the text is not a report.
    """
    try:
        found = json.loads(told)
        report = WriteReport(
            ranges={
                TopicPartition(_checked(topic, str), _checked(partition, int)): OffsetRange(
                    *(_checked(each, int) for each in (first, last, count))
                )
                for topic, partition, first, last, count in found["ranges"]
            },
            **{name: _checked(found[name], kind) for name, kind in _FACTS.items()},
        )
        batch = found["batch"]
        if batch is not None:
            number, query = batch
            batch = Batch(_checked(number, int), _checked(query, str))
        failure = found["failure"]
        if failure is not None:
            text, kind = failure
            failure = TaskFailure(_checked(text, str), FailureKind(_checked(kind, str)))
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise IllegalStateError(
            f"a task of the write did not report its records ({str(error)[:200]}); do the "
            "executors have this version of aioproducer?"
        ) from None
    return TaskOutcome(report, begun, batch, failure)


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} instead of a {kind.__name__}")
    return value


def _local_property(df: DataFrame) -> Callable[[str], str | None]:
    """The local properties of the calling thread; Spark Connect has none."""
    try:
        return df.sparkSession.sparkContext.getLocalProperty
    except PySparkException:
        return lambda name: None
