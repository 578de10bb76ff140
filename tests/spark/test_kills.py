"""Processes of a cluster and of a query are killed: at each place that matters, and at random.

Each run of the tests kills at random, ten times over 25 micro-batches. With ``-m soak`` processes
are killed at each place, and twenty times over fifty micro-batches, and twenty queries lose
executors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random, SystemRandom

import pytest
from pyspark.sql import SparkSession

from aioproducer.spark import publish_partitions, repartition_by_key
from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark import sessions
from benchmarks.spark.kills.cluster_victims import ClusterVictims
from benchmarks.spark.kills.driver import Settings
from benchmarks.spark.kills.drivers import Run, Seen
from benchmarks.spark.kills.random_kills import (
    PARTITIONS,
    Outcome,
    Sink,
    kill_all,
    run_under_kills,
)
from benchmarks.spark.kills.sinks import KEYED, LARGE_ROWS, MICRO_BATCHES, OURS
from benchmarks.spark.standalone import SETTINGS, StandaloneCluster
from tests.kafka.transactional import offset_of, topics
from tests.spark.killing import Kill, Plan, Point, Victim
from tests.spark.sink import until_written

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster(workers=2) as cluster:
        yield cluster


async def killed_at_random(
    kafka: KafkaCluster,
    victims: ClusterVictims,
    folder: Path,
    sink: Sink,
    batches: int,
    kills: int,
    seed: int | None = None,
) -> Outcome:
    seed = SystemRandom().randrange(10**6) if seed is None else seed
    print(f"seed {seed}")
    topic = f"killed-on-a-cluster-{seed}"
    await topics(kafka, topic, partitions=PARTITIONS)
    outcome = run_under_kills(
        sink,
        kafka.bootstrap_servers,
        topic,
        folder,
        batches=batches,
        kills=kills,
        random=Random(seed),
        victims=victims,
    )
    print(outcome)
    assert sum(outcome.killed.values()) == kills, outcome
    assert outcome.batches >= batches
    assert (outcome.seen.missing, outcome.seen.duplicated) == (0, 0), outcome
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], indirect=True)
async def test_an_executor_a_worker_and_the_master_are_killed(
    transactional: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    victims = ClusterVictims(cluster, ("executor", "worker", "master"))
    outcome = await killed_at_random(transactional, victims, tmp_path, OURS, batches=5, kills=3)
    assert outcome.starts == 1, "the query goes on"


@pytest.fixture(scope="module")
def lasting_cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster(workers=2) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], indirect=True)
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(20))
async def test_a_query_survives_lost_executors(
    transactional: KafkaCluster, lasting_cluster: StandaloneCluster, tmp_path: Path, seed: int
) -> None:
    victims = ClusterVictims(lasting_cluster, ("Python", "executor", "executor"))
    sink = (OURS, KEYED, MICRO_BATCHES, LARGE_ROWS)[seed % 4]
    outcome = await killed_at_random(
        transactional, victims, tmp_path, sink, batches=8, kills=5, seed=seed
    )
    assert outcome.starts == 1, "the query never ends"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], indirect=True)
@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_batches_survive_lost_executors(
    transactional: KafkaCluster, cluster: StandaloneCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Large keyed rows: each is a batch of its own, and their shuffle files die with executors."""
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    random, rows = Random(seed), 200
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()  # there is one in a process
    spark = sessions.start(cluster.url, SETTINGS)
    try:
        keyed = spark.range(0, rows, numPartitions=4).selectExpr(
            "string(id) as key", "rpad(string(id), 300000, ' ') as value"
        )
        for write in range(10):
            topic = f"batch-{seed}-{write}"
            await topics(transactional, topic, partitions=PARTITIONS)
            options = OURS.options(transactional.bootstrap_servers, topic)
            writing = asyncio.create_task(
                asyncio.to_thread(
                    publish_partitions, repartition_by_key(keyed, PARTITIONS, tasks=2), **options
                )
            )
            await asyncio.to_thread(until_written, transactional.bootstrap_servers, topic)
            await asyncio.sleep(random.uniform(0, 0.5))
            killed = kill_all([random.choice(cluster.executors())])
            report = await writing
            seen = Seen.of(transactional.bootstrap_servers, topic, PARTITIONS, rows)
            again = caplog.text.count("to write failed")
            print(f"write {write}: killed {killed}, repeated {again} times up to now, {seen}")
            assert (report.records, seen) == (rows, Seen(0, 0, 0))
        assert again > 0, "some were killed while they wrote"
    finally:
        spark.stop()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], indirect=True)
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", [OURS, KEYED], ids=["without keys", "keyed"])
async def test_many_are_killed(
    transactional: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path, sink: Sink
) -> None:
    victims = ClusterVictims(cluster)
    await killed_at_random(transactional, victims, tmp_path, sink, batches=60, kills=30)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2], indirect=True)
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("keyed_partitions", [0, PARTITIONS], ids=["without keys", "keyed"])
async def test_executors_are_killed_in_the_middle_of_a_write(
    transactional: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path, keyed_partitions: int
) -> None:
    """At the moments that chance seldom finds; keyed rows lose shuffle files with an executor."""
    topic, rows = f"killed-in-a-write-{keyed_partitions}", 1_000
    await topics(transactional, topic, partitions=PARTITIONS)
    executor = Victim.JVM  # that of a task, on a cluster
    moments = product((Victim.WORKER, executor), (Point.BEFORE_ANY_WRITE, Point.MID_WRITE))
    kills = [
        Kill(batch, point, victim) for batch, (victim, point) in enumerate([*moments] * 2, start=1)
    ]
    plan = Plan(tmp_path / "plan")
    plan.write(kills)
    settings = Settings(
        format="killing",
        options={
            "kafka.bootstrap.servers": transactional.bootstrap_servers,
            "topic": topic,
            "delivery.guarantee": "exactly_once",
            "sink.id": topic,
            "plan": str(plan.folder),
        },
        checkpoint=str(tmp_path / "checkpoint"),
        batches=len(kills) + 2,
        rows=rows,
        tasks=2,
        spark={**SETTINGS, "spark.sql.execution.arrow.maxRecordsPerBatch": "200"},
        source="tests.spark.killing:KillingSource",
        master=cluster.url,
        keyed_partitions=keyed_partitions,
    )
    run = Run(settings, tmp_path / "log", timeout=1800)
    run.to_its_end()
    assert plan.done() == kills
    through = settings.committed()
    seen = Seen.of(transactional.bootstrap_servers, topic, PARTITIONS, through * rows)
    assert (seen.missing, seen.duplicated) == (0, 0), run.log[-5000:]


ROWS = 1_000


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_every_victim_at_every_point(
    transactional: KafkaCluster, protocol: int, tmp_path: Path
) -> None:
    topic = f"killed-{protocol}"
    await topics(transactional, topic, partitions=4)
    plan = Plan(tmp_path / "plan")
    victims = tuple(Victim) if protocol == 2 else (Victim.WORKER, Victim.JVM)
    kills = [
        Kill(batch, point, victim)
        for batch, (victim, point) in enumerate(product(victims, Point), start=1)
    ]
    plan.write(kills)
    settings = Settings(
        format="killing",
        options={
            "kafka.bootstrap.servers": transactional.bootstrap_servers,
            "topic": topic,
            "delivery.guarantee": "exactly_once",
            "sink.id": topic,
            "plan": str(plan.folder),
        },
        checkpoint=str(tmp_path / "checkpoint"),
        batches=len(kills) + 2,
        rows=ROWS,
        tasks=2,
        source="tests.spark.killing:KillingSource",
        spark={"spark.sql.execution.arrow.maxRecordsPerBatch": "200"},
    )
    run = Run(settings, tmp_path / "log", timeout=800)
    run.to_its_end()
    assert plan.done() == kills
    if Victim.WORKER in victims:
        assert "runs again (attempt 1)" in run.log
    through = await offset_of(transactional, topic, topic)
    assert through is not None
    assert through >= settings.batches
    assert Seen.of(transactional.bootstrap_servers, topic, 4, through * ROWS) == Seen(0, 0, 0), (
        run.log[-5000:]
    )


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "protocol",
    [pytest.param(1, id="protocol-1", marks=pytest.mark.soak), pytest.param(2, id="protocol-2")],
    indirect=True,
)
@pytest.mark.parametrize(
    ("batches", "kills"), [(25, 10), pytest.param(50, 20, marks=pytest.mark.soak)]
)
async def test_nothing_is_missing_and_nothing_is_there_twice(
    transactional: KafkaCluster, tmp_path: Path, batches: int, kills: int
) -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    topic = f"killed-at-random-{kills}"
    await topics(transactional, topic, partitions=PARTITIONS)
    outcome = run_under_kills(
        OURS,
        transactional.bootstrap_servers,
        topic,
        tmp_path,
        batches=batches,
        kills=kills,
        random=Random(seed),
    )
    assert sum(outcome.killed.values()) == kills, outcome
    assert outcome.batches >= batches
    assert (outcome.seen.missing, outcome.seen.duplicated) == (0, 0), outcome
