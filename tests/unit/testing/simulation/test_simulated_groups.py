"""Consumers of one group in a simulated world."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.simulated_world import model_of

PARTITIONS = 4
RECORDS = 200


class Readers:
    """Members of a group, and what they have read."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.read: Counter[int] = Counter()
        self.partitions: dict[str, set[int]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str) -> None:
        self.partitions[name] = set()
        self.tasks.append(asyncio.create_task(self._consume(name)))

    async def _consume(self, name: str) -> None:
        async with Consumer(
            "orders",
            group_id="shop",
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
        ) as consumer:
            async for record in consumer:
                self.read[int(record.value or b"")] += 1
                self.partitions[name].add(record.partition)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def send(producer: Producer, begin: int = 0) -> None:
    """Half of the records, ten a second."""
    for number in range(begin, begin + RECORDS // 2):
        producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(2))
def test_two_consumers_share_the_partitions_of_a_topic(seed: int) -> None:
    async def life(world: SimulatedWorld) -> None:
        readers = Readers(world)
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            readers.start("one")
            await send(producer)
            readers.start("two")
            await asyncio.sleep(20)
            for each in readers.partitions.values():
                each.clear()
            await send(producer, RECORDS // 2)
            await asyncio.sleep(20)
        assert sorted(map(len, readers.partitions.values())) == [2, 2]
        assert not set.intersection(*readers.partitions.values())
        assert sorted(readers.read) == [*range(RECORDS)]
        await readers.stop()

    simulate(life, seed=seed, topics={"orders": PARTITIONS})


@pytest.mark.parametrize("seed", range(2))
def test_a_group_outlives_its_coordinator(seed: int) -> None:
    async def life(world: SimulatedWorld) -> None:
        readers = Readers(world)
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            readers.start("one")
            readers.start("two")
            await send(producer)
            coordinator = model_of(world).coordinators.groups.partition_of("shop").leader
            world.cluster.crash(coordinator)
            world.at(world.now + 15, partial(world.cluster.restart, coordinator))
            await send(producer, RECORDS // 2)
            await asyncio.sleep(60)
        assert sorted(readers.read) == [*range(RECORDS)]
        assert not any(task.done() for task in readers.tasks)
        await readers.stop()
        offsets = world.cluster.committed_offsets("shop")
        assert sum(each.offset for each in offsets.values()) == RECORDS

    simulate(life, seed=seed, topics={"orders": PARTITIONS})
