"""Brokers die, connections break, clients are replaced: every transaction is there, whole, once.

A second producer takes part in every second one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

import pytest

from aioproducer.testing.kafka_distribution import KafkaDistribution
from benchmarks.chaos.transactions.run import Plan, run
from tests.kafka.transactional import older_protocol_in_soak

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TRANSACTIONS = "AIOPRODUCER_TRANSACTIONS"
"""1,000 for the full run."""
SHORT = 150
SEED = "AIOPRODUCER_CHAOS_SEED"


@older_protocol_in_soak
async def test_every_transaction_is_committed_once_and_every_zombie_fenced(
    protocol: int, kafka_distribution: KafkaDistribution, tmp_path: Path
) -> None:
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))
    transactions = int(os.environ.get(TRANSACTIONS) or SHORT)
    print(f"the same again: {SEED}={seed} {TRANSACTIONS}={transactions}; logs in {tmp_path}")
    plan = Plan(transactions, seed, protocol)
    if transactions <= SHORT:
        plan = replace(plan, clients_every=2.0, pause=0.15, disturbed=20.0)
    outcome = await run(plan, tmp_path)
    print(outcome)
    assert outcome.verdict.broken_promises == 0
    assert outcome.offset == transactions
    assert outcome.fenced + outcome.done_before == outcome.zombies
    assert outcome.fenced > 0
    assert outcome.fenced_late <= outcome.clients // 2
    assert outcome.enough, "less has happened than this is about"
    assert "IllegalStateError" not in outcome.errors
