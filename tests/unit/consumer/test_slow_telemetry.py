"""Brokers that take long for pushed metrics (KIP-714): a plugin of theirs handles them."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.engine.protocol import Api
from aioproducer.testing import SimulatedWorld
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.cluster import ClusterOptions
from aioproducer.testing.simulation.kafka.requests.apis import HANDLERS
from tests.support.simulated_groups import consumer, each_protocol, fill

SLOW = 20.0
"""Seconds for a push; the session of the consumers is 10 s."""


class Broker:
    """The part of a broker that takes metrics."""

    def __init__(self) -> None:
        self.pushes = 0

    def push(self, call: Call) -> Answer:
        self.pushes += 1
        deadline = call.now + SLOW
        return Parked(lambda now: {"error_code": 0} if now >= deadline else None, deadline)


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setitem(HANDLERS, Api.PUSH_TELEMETRY, broker.push)
    return broker


@each_protocol
def test_a_slow_push_delays_no_heartbeat(protocol: str, telemetry: Broker) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, group_protocol=protocol) as reader:
            ages: list[float] = []
            for _ in range(100):
                await asyncio.sleep(1)
                ages.append(reader.health().heartbeat_age or 0.0)
            assert telemetry.pushes > 2
            assert max(ages) < 6
            await reader.commit()
            found = reader.metrics()["consumer-coordinator-metrics"]
            assert found["failed-rebalance-total"] == 0
            began = world.now
        assert world.now - began < 5, "the last push is given up after a second"

    world = SimulatedWorld(0, 1, options=ClusterOptions(telemetry_interval_ms=1_000))
    world.cluster.create_topic("orders", 1)
    world._run(life(world), timeout=3_600)
