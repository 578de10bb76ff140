"""A stream of which processes are killed at random, twenty times over fifty micro-batches."""

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
async def test_nothing_is_missing_and_nothing_is_there_twice(
    transactional: KafkaCluster, tmp_path: Path
) -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    await topics(transactional, "killed-at-random", partitions=PARTITIONS)
    outcome = run_under_kills(
        OURS,
        transactional.bootstrap_servers,
        "killed-at-random",
        tmp_path,
        batches=50,
        kills=20,
        random=Random(seed),
    )
    assert sum(outcome.killed.values()) == 20, outcome
    assert outcome.batches >= 50
    assert (outcome.seen.missing, outcome.seen.duplicated) == (0, 0), outcome
