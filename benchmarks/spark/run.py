"""Every contender at every load, round by round, in one Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.brokers import log_size
from benchmarks.machine import Neighbours
from benchmarks.measure import Numbers, per_record
from benchmarks.spark import sessions
from benchmarks.spark.connector import connector_jars
from benchmarks.spark.cpu import CpuWatch
from benchmarks.spark.plan import BROKERS, MICRO_BATCHES, ROWS_PER_BATCH, Contender
from benchmarks.spark.rows import rows_of
from benchmarks.spark.sinks import SINKS, Target, stream
from benchmarks.summary import Run
from benchmarks.workloads import Workload

_WARM_UP: Final = 10
"""The part of a round's rows that each contender writes before the first round."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    loads: Sequence[Workload]
    contenders: Sequence[Contender]
    rounds: int
    rows: int | None = None
    """In each round; None: the load's number."""
    brokers: str = "kafka"
    """A name of `BROKERS`."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session."""

    def able(self, load: Workload) -> Sequence[Contender]:
        """Those that can talk to these brokers, and can write ``load``."""
        talking = (each for each in self.contenders if self.brokers in each.brokers)
        return [each for each in talking if each.streams or load is not MICRO_BATCHES]

    def runs(self, load: Workload) -> int:
        """The number of runs of ``load``."""
        return len(self.able(load)) * self.rounds


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the runs of one load take place."""

    load: Workload
    rows: DataFrame
    number: int
    """Of the rows."""
    bootstrap_servers: str
    watch: CpuWatch


def run_all(plan: Plan, started: Callable[[str], None]) -> Iterator[Run]:
    """Every run, as it ends, all in one JVM. ``started`` is told what runs now."""
    with BROKERS[plan.brokers]() as serving, session(plan.spark) as (spark, watch):
        for load in plan.loads:
            contenders = plan.able(load)
            with serving(load) as target:
                stage = _stage(
                    spark, load, plan.rows or load.records, target.bootstrap_servers, watch
                )
                warm_up = _stage(
                    spark, load, stage.number // _WARM_UP, target.bootstrap_servers, watch
                )
                yield from interleaved(warm_up, stage, contenders, plan.rounds, started)


def interleaved(
    warm_up: Stage,
    stage: Stage,
    contenders: Sequence[Contender],
    rounds: int,
    started: Callable[[str], None],
) -> Iterator[Run]:
    """The rounds of one load, A B C, B C A; a warm-up of each goes before them."""
    name = stage.load.name
    for contender in contenders:
        started(f"{name}: warming up {contender.name}")
        run_one(warm_up, contender, 0)
    for number in range(1, rounds + 1):
        first = (number - 1) % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            started(f"{name}, round {number} of {rounds}: {contender.name}")
            yield run_one(stage, contender, number)


def _stage(
    spark: SparkSession, load: Workload, number: int, servers: str, watch: CpuWatch
) -> Stage:
    rows = rows_of(spark, load, number)
    number = number if rows.isStreaming else rows.count()
    return Stage(load, rows, number, servers, watch)


@contextmanager
def session(settings: Mapping[str, str]) -> Iterator[tuple[SparkSession, CpuWatch]]:
    """Spark with its own sink for Kafka, and the watch of its CPU time."""
    own = {
        "spark.driver.memory": "4g",  # publish_dataframe() has two partitions there, several times
        "spark.driver.extraClassPath": os.pathsep.join(connector_jars()),
    }
    spark = sessions.start(settings={**own, **settings}, spark_home=sessions.INSTALLED)
    try:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        with CpuWatch(gateway.proc.pid) as watch:
            yield spark, watch
    finally:
        spark.stop()


def run_one(stage: Stage, contender: Contender, number: int) -> Run:
    """One run; whatever a contender raises makes it void."""
    load, rows = stage.load, stage.number
    _collect_garbage(stage.rows.sparkSession)
    log_before = _log_size(stage)
    neighbours = Neighbours()
    target = Target(stage.bootstrap_servers, load.topic_names()[0], load.partitions)
    batches, times = 1, Numbers()
    used, began = stage.watch.used(), perf_counter()
    try:
        if stage.rows.isStreaming:
            batches = -(-rows // ROWS_PER_BATCH)
            times = stream(stage.rows, target, contender, batches)
        else:
            SINKS[contender.sink](stage.rows, target, contender.settings)
    except Exception as error:  # whatever a contender raises makes its run void
        return Run(contender.name, load.name, number, neighbours.cores_used(), _told(error))
    seconds, used = perf_counter() - began, stage.watch.used().since(used)
    others = neighbours.cores_used()
    in_log = _log_size(stage) - log_before
    void = why_void(contender, rows, in_log, load.partitions * batches)
    numbers = {
        **times,
        **per_record(rows, load.value_bytes, seconds, used.spark),
        "brokers_cpu_us_per_record": used.brokers / rows * 1e6,
    }
    return Run(contender.name, load.name, number, others, void, {} if void else numbers)


def _log_size(stage: Stage) -> int:
    load = stage.load
    return log_size(stage.bootstrap_servers, load.topic_names(), load.partitions)


def _collect_garbage(spark: SparkSession) -> None:
    """That of the run before, which is not to be paid by the next one."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"


def why_void(contender: Contender, rows: int, in_log: int, markers: int) -> str | None:
    """Why a run does not count, or None. ``in_log``: by how many offsets the logs have grown.

    ``markers``: the most that transactions write, one into each partition written to.
    """
    least = most = rows if contender.sends else 0
    if contender.transactional:
        least, most = rows + 1, rows + markers
    if least <= in_log <= most:
        return None
    return f"{rows:,} rows were written, and the logs have grown by {in_log:,}"
