"""Other tasks hold each turn of the event loop for milliseconds: that is no stop of the process."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import Producer
from aioproducer.testing import simulate
from aioproducer.testing.simulation.world import SimulatedWorld

RECORDS = 20


@pytest.mark.parametrize("held", [0.01, 0.03, 0.1])
def test_an_awaited_record_needs_few_turns(held: float) -> None:
    """Four: it leaves, it travels, and its response is read. The sender judges nothing late."""

    async def life(world: SimulatedWorld) -> None:
        turns = 0

        async def hold() -> None:
            nonlocal turns
            while True:
                world.freeze(held)
                turns += 1
                await asyncio.sleep(0)

        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            await producer.send("orders", b"first")
            holding = asyncio.create_task(hold())
            world.freeze(1.0)
            await producer.send("orders", b"after a stop")
            turns = 0
            for _ in range(RECORDS):
                await producer.send("orders", b"v")
            assert turns <= 5 * RECORDS
            holding.cancel()

    simulate(life, topics={"orders": 1})
