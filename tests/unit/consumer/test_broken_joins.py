"""Joins that meet dead connections, stuck applications and callbacks that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import UnknownMemberIdError
from aioproducer.model import TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_groups import ONE, ZERO, consumer, each_protocol, fill, live
from tests.support.simulated_world import change, model_of, network_of

Partitions = Collection[TopicPartition]
HEARTBEATS = {"classic": 12, "consumer": 68}
JOIN_GROUP = 11


def on_requests(world: SimulatedWorld, seen: Callable[[Any, int], None]) -> None:
    """Call ``seen`` with the connection and the API of each request from now on."""

    def watch(connection: Any) -> None:
        connection.requests.on_put = lambda data: seen(connection, int.from_bytes(data[4:6], "big"))

    network_of(world).on_connection = watch


async def read(reader: Consumer, found: list[tuple[int, int]] | None = None) -> None:
    async for record in reader:
        if found is not None:
            found.append((record.partition, record.offset))
        await asyncio.sleep(0.05)


# --- dead connections --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_connection_that_died_between_rebalances_holds_up_no_group(strategy: str) -> None:
    """A firewall forgets the connection of JoinGroup, which is idle between rebalances."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 8_000, 4)
        joins = set()
        on_requests(world, lambda at, api: joins.add(at) if api == JOIN_GROUP else None)
        options: dict[str, Any] = {"partition_assignment_strategy": strategy}
        found: list[tuple[int, int]] = []
        async with consumer(world, client_id="a", **options) as first:
            reading = [asyncio.create_task(read(first, found))]
            await asyncio.sleep(30)
            for connection in joins:
                connection.stall()
            async with consumer(world, client_id="b", **options) as second:
                reading.append(asyncio.create_task(read(second, found)))
                await asyncio.sleep(30)
                assert len(first.assignment) == len(second.assignment) == 2
                await asyncio.sleep(60)
                for task in reading:
                    task.cancel()
        assert len(found) == len({*found}), "no record was read by both"

    live(life, 4)


def test_a_join_that_the_coordinator_has_never_got_ends_with_the_membership() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 400, 4)
        joins: list[Any] = []

        def stall(connection: Any, api: int) -> None:
            if api == JOIN_GROUP:
                joins.append(connection)
                if len(joins) == 5:  # each asks twice at first; this is the first one's rebalance
                    connection.stall()

        on_requests(world, stall)
        options: dict[str, Any] = {"max_poll_interval_ms": 30_000}
        async with consumer(world, **options) as first:
            await asyncio.sleep(10)
            async with consumer(world, **options) as second:
                await asyncio.sleep(20)
                assert first.health().state == "rebalancing"
                await asyncio.sleep(25)
                assert len(first.assignment) == len(second.assignment) == 2

    live(life, 4)


@pytest.mark.parametrize("instance", [None, "s"])
def test_a_coordinator_that_vanishes_during_the_first_join_is_left(instance: str | None) -> None:
    async def life(world: SimulatedWorld) -> None:
        coordinator = model_of(world).coordinators.groups.partition_of("g").leader
        assert coordinator is not None
        stalled: list[int] = []

        def stall(_: object, api: int) -> None:
            if api == JOIN_GROUP and not stalled:
                stalled.append(coordinator)
                world.cluster.stall(coordinator)

        on_requests(world, stall)
        async with consumer(world, group_instance_id=instance) as reader:
            await asyncio.sleep(3)
            assert stalled
            change(world, model_of(world).crash, coordinator, lose_unreplicated=False)
            await asyncio.sleep(60)
            assert reader.health().state == "joined"

    live(life, 4, brokers=3)


# --- stuck applications ------------------------------------------------------------------------


def test_a_static_member_that_gives_up_during_a_join_gets_no_partitions() -> None:
    """It would keep them while the application is stuck, and nobody would read them."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4_000, 4)
        longest: dict[str, Any] = {"max_poll_interval_ms": 70_000}
        stuck = asyncio.Event()

        async def hang(reader: Consumer) -> None:
            async for _ in reader:
                await stuck.wait()

        async def work(reader: Consumer) -> None:
            async for _ in reader.lists(10_000):
                await asyncio.sleep(64)  # longer than the first one's patience

        first = consumer(world, group_instance_id="a", max_poll_interval_ms=60_000)
        async with first, consumer(world, **longest) as second:
            tasks = [asyncio.create_task(hang(first))]
            await asyncio.sleep(10)
            assert len(first.assignment) == 2
            tasks.append(asyncio.create_task(work(second)))
            await asyncio.sleep(1)
            async with consumer(world, **longest) as third:
                await asyncio.sleep(200)
                assert not first.assignment
                assert len(second.assignment) == len(third.assignment) == 2
                assert first.health().state == "joining"
                stuck.set()
                await asyncio.sleep(100)
                assert first.assignment
            for task in tasks:
                task.cancel()

    live(life, 4)


@each_protocol
def test_a_member_that_gives_up_while_it_tells_of_a_loss_waits_for_the_application(
    protocol: str,
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        options: dict[str, Any] = {
            "on_lost": lambda _: asyncio.sleep(20),
            "max_poll_interval_ms": 60_000,
            "group_protocol": protocol,
        }
        async with consumer(world, **options) as reader:
            await anext(records := aiter(reader))
            await asyncio.sleep(50)
            world.cluster.fail_next(HEARTBEATS[protocol], UnknownMemberIdError)
            await asyncio.sleep(100)
            assert not reader.assignment, "another member can have them"
            async with asyncio.timeout(60):
                assert (await anext(records)).offset == 0
            assert reader.assignment

    live(life)


# --- callbacks that fail -----------------------------------------------------------------------


@each_protocol
def test_a_seek_in_a_callback_may_come_too_late(protocol: str) -> None:
    """The partitions were lost while ``on_assigned`` was looking for their offsets."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)

        async def resume(partitions: Partitions) -> None:
            await asyncio.sleep(10)
            for where in partitions:
                await reader.seek(where, 5)

        reader = consumer(world, on_assigned=resume, group_protocol=protocol)
        async with reader:
            await asyncio.sleep(5)
            world.cluster.fail_next(HEARTBEATS[protocol], UnknownMemberIdError)
            async with asyncio.timeout(100):
                assert (await anext(aiter(reader))).offset == 5

    live(life)


@each_protocol
def test_a_commit_in_a_callback_may_be_refused(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 400, 2)

        async def revoked(_: Partitions) -> None:
            world.cluster.fail_next(8, UnknownMemberIdError)
            await first.commit()

        first = consumer(world, on_revoked=revoked, auto_commit=False, group_protocol=protocol)
        async with first:
            reading = asyncio.create_task(read(first))
            await asyncio.sleep(10)
            async with consumer(world, group_protocol=protocol):
                await asyncio.sleep(60)
                assert first.health().state == "joined"
                assert not reading.done()
                reading.cancel()

    live(life, 2)


def test_a_revocation_is_told_once() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 2)
        told: list[TopicPartition] = []
        first = consumer(world, on_revoked=told.extend, max_block_ms=60_000)
        async with first:
            await anext(aiter(first))
            coordinator = model_of(world).coordinators.groups.partition_of("g").leader
            assert coordinator is not None
            world.cluster.stall(coordinator)  # so the commit of the revocation waits
            revoking = asyncio.create_task(first._assignment.revoked([ONE]))
            await asyncio.sleep(0.1)
            world.cluster.release(coordinator)
            revoking.cancel()
            with suppress(asyncio.CancelledError):
                await revoking
        assert sorted(told) == [ZERO, ONE]

    live(life, 2)


# --- false alarms ------------------------------------------------------------------------------


def test_a_loop_that_commits_each_record_is_no_problem() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 20, 1)

        async def commit_each() -> None:
            async for _ in reader:
                await reader.commit()
                await asyncio.sleep(100)

        async with consumer(world) as reader:
            committing = asyncio.create_task(commit_each())
            await asyncio.sleep(10)
            for _ in range(16):
                await asyncio.sleep(61)
                assert reader.health().reason == ""
            committing.cancel()

    live(life)


def test_a_paused_partition_is_no_problem() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 2)
        async with consumer(world) as reader:
            reading = asyncio.create_task(read(reader))
            await asyncio.sleep(30)
            leader = world.cluster.leader("orders", 0)
            assert leader is not None
            world.cluster.cut(leader)
            await asyncio.sleep(0.02)
            assert "can't be fetched" in reader.health().reason
            reader.pause(ZERO)
            await asyncio.sleep(100)
            assert reader.health().reason == ""
            reading.cancel()

    live(life, 2)
