"""A stream of which processes are killed at random, ten times over 25 micro-batches.

With ``-m soak`` twenty times over fifty.
"""

from __future__ import annotations

from pathlib import Path
from random import Random, SystemRandom

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.kills.random_kills import PARTITIONS, run_under_kills
from benchmarks.spark.kills.sinks import OURS
from tests.kafka.transactional import topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1500)]


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
