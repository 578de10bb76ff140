"""Micro-batches of which a process is killed at each place where it matters.

``test_random_kills.py`` and ``test_cluster_kills.py`` kill in each run of the tests.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.kills.driver import Settings
from benchmarks.spark.kills.drivers import Run, Seen
from tests.kafka.transactional import offset_of, topics
from tests.spark.killing import Kill, Plan, Point, Victim

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.soak, pytest.mark.timeout(900)]

ROWS = 1_000


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
