"""The short chaos: brokers die and connections break, and every promise is kept."""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from aioproducer.testing.kafka_distribution import KafkaDistribution
from benchmarks.chaos.clients import CLIENTS
from benchmarks.chaos.plan import Load
from benchmarks.chaos.report import details, table
from benchmarks.chaos.run import Plan, run

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 100_000
PER_SECOND = 2_500
SEED = "AIOPRODUCER_CHAOS_SEED"


async def test_every_promise_is_kept(kafka_distribution: KafkaDistribution, tmp_path: Path) -> None:
    await _every_promise_is_kept(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("client", ["ours", "ours-transactions"])
async def test_every_promise_is_kept_with_tls_and_logins_of_seconds(
    kafka_distribution: KafkaDistribution, tmp_path: Path, client: str
) -> None:
    await _every_promise_is_kept(tmp_path, client, session_ms=3_000)


async def _every_promise_is_kept(tmp_path: Path, client: str = "ours", session_ms: int = 0) -> None:
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))
    print(f"the same again: {SEED}={seed}; logs in {tmp_path}")
    load = Load(RECORDS, seed, PER_SECOND, request_timeout_ms=3_000, delivery_timeout_ms=120_000)
    plan = Plan(load, every=1.0, session_ms=session_ms)
    outcome = await run(CLIENTS[client], plan, tmp_path)
    print(*table([outcome]), *details(outcome), sep="\n")
    assert outcome.verdict.broken_promises == 0
    assert outcome.verdict.acknowledged == RECORDS
    assert outcome.disturbed.total() > 0
    assert outcome.faults.total() > 10
