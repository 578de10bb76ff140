"""Streams on a cluster whose workers, executors, Pythons, master and drivers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random, SystemRandom

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.kills.cluster_victims import ClusterVictims
from benchmarks.spark.kills.driver import Settings
from benchmarks.spark.kills.drivers import Run, Seen
from benchmarks.spark.kills.random_kills import PARTITIONS, Outcome, Sink, run_under_kills
from benchmarks.spark.kills.sinks import KEYED, OURS
from benchmarks.spark.standalone import SETTINGS, StandaloneCluster
from tests.kafka.transactional import topics
from tests.spark.killing import Kill, Plan, Point, Victim

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]


@pytest.fixture
def cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster(workers=2) as cluster:
        yield cluster


async def killed_at_random(
    kafka: KafkaCluster, victims: ClusterVictims, folder: Path, sink: Sink, batches: int, kills: int
) -> Outcome:
    seed = SystemRandom().randrange(10**6)
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


async def test_an_executor_a_worker_and_the_master_are_killed(
    transactional: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    victims = ClusterVictims(cluster, ("executor", "worker", "master"))
    await killed_at_random(transactional, victims, tmp_path, OURS, batches=5, kills=3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", [OURS, KEYED], ids=["without keys", "keyed"])
async def test_many_are_killed(
    transactional: KafkaCluster, cluster: StandaloneCluster, tmp_path: Path, sink: Sink
) -> None:
    victims = ClusterVictims(cluster)
    await killed_at_random(transactional, victims, tmp_path, sink, batches=60, kills=30)


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
