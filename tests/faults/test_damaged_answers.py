"""Damaged answers between a producer and a Kafka that speaks the newest versions of everything."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from aioproducer.foundation import tuning
from aioproducer.testing.fault_proxy import FaultProxy
from tests.faults.damaged_network import TOPICS, DamagedNetwork
from tests.support.fake_kafka.logins import LOGIN, FakeLogins
from tests.support.fake_kafka.telemetry import FakeTelemetry

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka

PRODUCE, METADATA, INIT_PRODUCER_ID, FIND_COORDINATOR = 0, 3, 22, 10
NEWEST = {PRODUCE: (7, 13), METADATA: (4, 13), INIT_PRODUCER_ID: (0, 5), FIND_COORDINATOR: (0, 6)}

SESSION_MS = 150
LEAST_LOGINS = 20


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What producers log about damage is of no interest, and there is much of it."""
    caplog.set_level(logging.CRITICAL, "aioproducer")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telemetry is asked for at once, and again soon after damage."""
    monkeypatch.setattr(tuning, "TELEMETRY_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(tuning, "TELEMETRY_FIRST_RETRY", 0.01)


async def run(start_kafka: StartKafka, kind: str, seed: int, seconds: float) -> DamagedNetwork:
    logins = FakeLogins(lifetime_ms=SESSION_MS) if kind == "logins" else None
    telemetry = FakeTelemetry() if kind == "telemetry" else None
    kafka = await start_kafka(2, TOPICS, NEWEST, 2, logins=logins, telemetry=telemetry)
    async with AsyncExitStack() as stack:
        proxies = []
        for number, server in kafka.servers.items():
            proxies.append(await stack.enter_async_context(FaultProxy(server.port)))
            kafka.advertised[number] = proxies[-1].port
        if kind in ("plain", "telemetry"):
            network = DamagedNetwork(proxies, seed)
            await network.plain(seconds)
        elif logins is not None:
            network = DamagedNetwork(proxies, seed, **LOGIN)
            await network.plain(seconds)
            while len(logins.ended) <= LEAST_LOGINS:  # a busy machine logs in more slowly
                await network.plain(seconds)
        else:
            network = DamagedNetwork(proxies, seed, transactional_id="payments")
            await network.transactional(seconds, fetches=True)
    assert telemetry is None or telemetry.pushes
    return network


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "logins", "telemetry", "transactional"])
async def test_damaged_answers_break_nothing(start_kafka: StartKafka, kind: str, seed: int) -> None:
    network = await run(start_kafka, kind, seed, 0.5)
    assert network.outcomes["delivered"], "else nothing was sent between the damage"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("kind", ["plain", "logins", "telemetry", "transactional"])
async def test_damaged_answers_break_nothing_for_long(
    start_kafka: StartKafka, kind: str, seed: int
) -> None:
    await run(start_kafka, kind, seed, 12.0)
