"""Streams on a cluster whose workers, executors, Pythons, master and drivers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.kills.cluster_victims import ClusterVictims
from benchmarks.spark.kills.random_kills import PARTITIONS, Outcome, Sink, run_under_kills
from benchmarks.spark.kills.sinks import KEYED, OURS
from benchmarks.spark.standalone import StandaloneCluster
from tests.kafka.transactional import topics

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
