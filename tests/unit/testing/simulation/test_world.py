"""A simulated world ends with its test."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

from aioproducer import Producer, RecordMetadata
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.support.simulated_world import model_of, run_in


def test_a_future_that_is_kept_keeps_no_world() -> None:
    world = SimulatedWorld(0)
    world.cluster.create_topic("orders")

    async def send(servers: str) -> asyncio.Future[RecordMetadata]:
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"0")
            return producer.send("orders", b"1")

    future = run_in(world, send(world.cluster.bootstrap_servers))
    model = ref(model_of(world))
    del world
    gc.collect()
    assert future.result().offset == 1
    assert model() is None
