"""Readers and consumers that end let the brokers forget their fetch sessions (KIP-227)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import ClientClosedError
from aioproducer.model import TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.simulated_groups import consumer
from tests.support.simulated_world import model_of

BROKERS = 3
each_kind = pytest.mark.parametrize("kind", ["reader", "consumer"])


def live(life: Any) -> None:
    simulate(life, topics={"orders": 6}, brokers=BROKERS)


def make(world: SimulatedWorld, kind: str, **options: Any) -> Reader | Consumer:
    if kind == "consumer":
        return consumer(world, **options)
    servers = world.cluster.bootstrap_servers
    return Reader("orders", start="end", bootstrap_servers=servers, **options)


def sessions(world: SimulatedWorld) -> list[int]:
    """The brokers that keep a session."""
    found = model_of(world).cluster.fetch_sessions
    return [broker for broker, known in found.items() if known._sessions]


async def read(reader: Reader | Consumer) -> None:
    async for _ in reader:
        pass


@each_kind
def test_no_broker_keeps_a_session(kind: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with make(world, kind) as reader:
            reading = asyncio.create_task(read(reader))
            await asyncio.sleep(10)
            assert len(sessions(world)) == BROKERS
            began = world.now
        assert world.now - began < 1
        assert not sessions(world)
        with pytest.raises(ClientClosedError, match="is closed; make a new one"):
            await reading

    live(life)


@each_kind
def test_a_session_that_begins_at_the_end_is_ended(kind: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        begun = set()
        for number in range(30):
            reader = make(world, kind, client_id=f"r-{number}")
            await reader.start()
            await asyncio.sleep(number / 30 + (0 if kind == "reader" else 3))
            begun.add(len(sessions(world)))
            await reader.close()
            assert not sessions(world), number
        assert begun >= {0, BROKERS}

    live(life)


@each_kind
@pytest.mark.parametrize("fault", ["stall", "crash"])
def test_a_broker_that_is_silent_or_dead_holds_nothing_up(kind: str, fault: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        coordinator = model_of(world).coordinators.groups.partition_of("g").leader
        leader = next(
            each
            for number in range(6)
            if (each := world.cluster.leader("orders", number)) not in (None, coordinator)
        )
        assert leader is not None
        reader = make(world, kind)
        await reader.start()
        await asyncio.sleep(10)
        if fault == "stall":
            world.cluster.stall(leader)
        else:
            world.cluster.crash(leader)
        began = world.now
        await reader.close()
        assert world.now - began < (1.5 if fault == "stall" else 1)
        assert sessions(world) == ([leader] if fault == "stall" else [])

    live(life)


def test_a_close_that_is_cancelled_closes() -> None:
    async def life(world: SimulatedWorld) -> None:
        reader = make(world, "reader")
        await reader.start()
        await asyncio.sleep(10)
        for broker in range(1, BROKERS + 1):
            world.cluster.stall(broker)
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0.5)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(ClientClosedError):
            await reader.seek(TopicPartition("orders", 0), 0)

    live(life)
