"""A member whose process was stopped, or whose loop was held, for longer than its session lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.consumer.workers import Order
from aioproducer.engine.client.environment import current_environment, use_environment
from aioproducer.model import ConsumerRecord
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ZERO, consumer, each_protocol, fill, live

RECORDS = 40
SECONDS = 60.0

Handle = Callable[[Iterable[ConsumerRecord]], None]
"""Called with the records that a loop has got, before it asks for more."""


async def one_by_one(reader: Consumer, handle: Handle) -> None:
    async for record in reader:
        handle((record,))


async def by_batches(reader: Consumer, handle: Handle) -> None:
    async for batch in reader.batches():
        handle(batch)


async def by_lists(reader: Consumer, handle: Handle) -> None:
    async for records in reader.lists(3):
        handle(records)


async def by_short_lists(reader: Consumer, handle: Handle) -> None:
    async for records in reader.lists(1):
        handle(records)


async def by_handlers(reader: Consumer, handle: Handle) -> None:
    async def one(record: ConsumerRecord) -> None:
        handle((record,))

    await reader.run(one, concurrency=2, order="none")


@each_protocol
@pytest.mark.parametrize("way", [one_by_one, by_batches, by_lists, by_handlers])
def test_a_held_loop_hands_nothing_out_before_the_group_has_answered(
    protocol: str, way: Callable[[Consumer, Handle], Awaitable[None]]
) -> None:
    async def life(world: SimulatedWorld) -> None:
        for _ in range(4):
            await fill(world, RECORDS // 4, 2)
        joins: list[tuple[int, int]] = []

        def handle(records: Iterable[ConsumerRecord]) -> None:
            for record in records:
                joins.append((reader.health().rebalances, record.offset))
            if len(joins) >= 2 and joins[-1][0] == 1:
                world.freeze(SECONDS)
            if joins[-1][0] > 1 and len([each for each in joins if each[0] > 1]) >= RECORDS:
                reader.finish()

        async with consumer(world, group_protocol=protocol, auto_commit_interval_ms=1) as reader:
            async with asyncio.timeout(600):
                await way(reader, handle)
        before = [offset for number, offset in joins if number == 1]
        assert len(before) < RECORDS / 2  # nothing was handed out of what was read ahead
        assert {number for number, _ in joins} == {1, 2}

    live(life, 2)


@each_protocol
@pytest.mark.parametrize("milliseconds", range(1, 12))
def test_what_has_waited_in_a_socket_is_not_handed_out(protocol: str, milliseconds: int) -> None:
    """The process is stopped at some time between the write of a record and its fetch."""
    joins: list[int] = []

    async def life(world: SimulatedWorld) -> None:
        async def read() -> None:
            async for _ in reader:
                joins.append(reader.health().rebalances)

        servers = world.cluster.bootstrap_servers
        async with (
            consumer(world, group_protocol=protocol, auto_commit=False) as reader,
            Producer(bootstrap_servers=servers) as producer,
        ):
            reading = asyncio.create_task(read())
            await producer.send("orders", b"0", partition=0)
            await asyncio.sleep(10)
            producer.send("orders", b"1", partition=0)
            await asyncio.sleep(milliseconds / 1000)
            read_before = len(joins) == 2
            world.freeze(SECONDS)
            await asyncio.sleep(30)
            reading.cancel()
        assert joins == ([1, 1, 2, 2] if read_before else [1, 2, 2])

    live(life)


@each_protocol
@pytest.mark.parametrize("quick", [1, 2, 5, 12, 20])
@pytest.mark.parametrize("way", [one_by_one, by_short_lists, by_handlers])
def test_the_record_that_holds_the_loop_may_come_after_quick_ones(
    protocol: str, way: Callable[[Consumer, Handle], Awaitable[None]], quick: int
) -> None:
    joins: list[int] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, RECORDS, 1)

        def handle(records: Iterable[ConsumerRecord]) -> None:
            joins.extend(reader.health().rebalances for _ in records)
            if len(joins) == quick:
                world.freeze(SECONDS)
            if joins.count(2) == RECORDS - quick:
                reader.finish()

        async with consumer(world, group_protocol=protocol) as reader:
            await way(reader, handle)

    live(life)
    assert set(joins[:quick]) == {1}
    assert set(joins[quick:]) == {2}


@pytest.mark.parametrize("way", [one_by_one, by_short_lists, by_handlers])
def test_brokers_decide_how_long_a_session_is(
    way: Callable[[Consumer, Handle], Awaitable[None]],
) -> None:
    """With KIP-848 the option can't make it longer than theirs of 45 s."""
    joins: list[int] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, RECORDS, 1)

        def handle(records: Iterable[ConsumerRecord]) -> None:
            joins.extend(reader.health().rebalances for _ in records)
            if len(joins) == 3:
                world.freeze(SECONDS)
            if len(joins) == RECORDS:
                reader.finish()

        async with consumer(world, group_protocol="consumer", session_timeout_ms=120_000) as reader:
            await way(reader, handle)

    live(life)
    assert joins[:5] == [1, 1, 1, 2, 2]


@each_protocol
@pytest.mark.parametrize("seconds", [2.0, 6.0, 9.0])
@pytest.mark.parametrize("way", [one_by_one, by_short_lists, by_handlers])
def test_handlers_that_never_wait_let_heartbeats_pass(
    protocol: str, way: Callable[[Consumer, Handle], Awaitable[None]], seconds: float
) -> None:
    """Each record holds the loop for a part of the session, and a batch for all of it."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, RECORDS, 2)
        joins: list[int] = []

        def handle(records: Iterable[ConsumerRecord]) -> None:
            for _ in records:
                world.freeze(seconds)
                joins.append(reader.health().rebalances)
            if len(joins) == RECORDS:
                reader.finish()

        async with consumer(world, group_protocol=protocol) as reader:
            await way(reader, handle)
            await reader.commit()
            await asyncio.sleep(5)
            assert reader.health().rebalances == 1
        assert joins == [1] * RECORDS

    live(life, 2)


@pytest.mark.parametrize("loop", [aiter, Consumer.batches, Consumer.lists])
def test_a_loop_that_ends_in_a_pause_has_acknowledged(loop: Callable[[Consumer], Any]) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 1, 1)
        async with consumer(world) as reader:
            steps = loop(reader)
            await anext(steps)
            world.freeze(1.0)
            step = asyncio.ensure_future(anext(steps))
            await asyncio.sleep(0)
            step.cancel()
            await asyncio.wait([step])
        async with consumer(world) as other:
            committed = (await other.committed(ZERO))[ZERO]
        assert committed is not None
        assert committed.offset == 1

    live(life)


@each_protocol
@pytest.mark.parametrize("order", ["partition", "none"])
def test_a_run_that_is_finished_waits_for_no_coordinator(protocol: str, order: Order) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, RECORDS, 1)
        handled: list[int] = []
        began = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.1)
            handled.append(record.offset)
            began.set()
            world.cluster.stall(1)
            world.freeze(SECONDS)

        async with consumer(world, group_protocol=protocol) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=1, order=order))
            await began.wait()
            await asyncio.sleep(1)
            assert reader.health().state == "silent"
            reader.finish()
            async with asyncio.timeout(1):
                await running
        assert handled == [0]

    live(life)


@each_protocol
def test_a_machine_that_was_suspended_hands_nothing_out_before_the_group_has_answered(
    protocol: str,
) -> None:
    """A suspended Linux stops the monotonic clock, and the coordinator's goes on."""
    joins: list[tuple[int, int]] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, RECORDS, 1)
        suspended, time = 0.0, asyncio.get_running_loop().time
        machine = current_environment()._replace(clock=lambda: time() - suspended)
        with use_environment(machine):
            reader = consumer(world, group_protocol=protocol, auto_commit=False)
        async with reader:
            async for record in reader:
                joins.append((reader.health().rebalances, record.offset))
                if len(joins) == 2:
                    suspended = SECONDS
                    world.freeze(SECONDS)
                if record.offset == RECORDS - 1:
                    break
        assert joins == [(1, 0), (1, 1), *((2, offset) for offset in range(RECORDS))]

    live(life)


@each_protocol
def test_health_knows_that_a_session_may_be_over_before_anybody_reads(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, group_protocol=protocol) as reader:
            await asyncio.sleep(5)
            assert reader.health().state == "joined"
            world.freeze(SECONDS)
            assert reader.health().state == "silent"
            assert not reader.health().is_ready
            await asyncio.sleep(SECONDS)
            assert reader.health().state == "joined"

    live(life)
