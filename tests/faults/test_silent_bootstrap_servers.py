"""A start while brokers are silent: one that answers is enough, whichever is tried first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.testing import SimulatedWorld, simulate

SILENT: Final = (2, 3)


async def first_record(servers: str, partition: int) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send("orders", b"one espresso", partition=partition)


async def first_question(servers: str, partition: int) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("use", [first_record, first_question])
@pytest.mark.parametrize("seed", range(8))
def test_a_start_does_not_wait_for_silent_bootstrap_servers(
    seed: int, use: Callable[[str, int], Awaitable[None]]
) -> None:
    async def life(world: SimulatedWorld) -> float:
        cluster = world.cluster
        [partition, *_] = [n for n in range(6) if cluster.leader("orders", n) not in SILENT]
        for broker in SILENT:
            cluster.stall(broker)
        await use(cluster.bootstrap_servers, partition)
        return world.now

    assert simulate(life, seed=seed, brokers=3, topics={"orders": 6}) < 5.0
