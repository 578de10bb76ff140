"""Damaged answers between a producer and librdkafka's mock cluster."""

from __future__ import annotations

import logging

import pytest

from aioproducer.testing.fault_proxy import FaultProxies
from aioproducer.testing.mock_cluster import MockCluster
from tests.faults.damaged_network import TOPICS, DamagedNetwork


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What producers log about damage is of no interest, and there is much of it."""
    caplog.set_level(logging.CRITICAL, "aioproducer")


async def run(kind: str, seed: int, seconds: float) -> DamagedNetwork:
    async with MockCluster(brokers=2, topics=TOPICS) as cluster, FaultProxies(2) as proxies:
        proxies.lead_to(cluster)
        if kind == "plain":
            network = DamagedNetwork(proxies.values(), seed)
            await network.plain(seconds)
        else:
            network = DamagedNetwork(proxies.values(), seed, transactional_id="payments")
            await network.transactional(seconds, fetches=False)
    return network


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "transactional"])
async def test_damaged_answers_break_nothing(kind: str, seed: int) -> None:
    network = await run(kind, seed, 1.0)
    assert network.outcomes["delivered"], "else nothing was sent between the damage"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("kind", ["plain", "transactional"])
async def test_damaged_answers_break_nothing_for_long(kind: str, seed: int) -> None:
    await run(kind, seed, 12.0)
