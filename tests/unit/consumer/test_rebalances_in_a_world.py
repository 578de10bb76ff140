"""Rebalances that take long, and topics that go, in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import pytest

from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.engine.protocol import data_schema
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_groups import consumer, each_protocol, fill, live
from tests.support.simulated_world import model_of


async def hold(reader: Consumer, done: asyncio.Event) -> None:
    """Have records in work: a rebalance waits for them."""
    async for _ in reader.lists(10_000):
        await done.wait()


async def reads(reader: Consumer, found: list[ConsumerRecord]) -> None:
    async for record in reader:
        found.append(record)
        await asyncio.sleep(0.5)


def test_a_join_that_waits_is_a_rebalance() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 600, 4)
        done = asyncio.Event()
        async with consumer(world) as first:
            holding = asyncio.create_task(hold(first, done))
            await asyncio.sleep(10)
            assert first.health().state == "joined"
            async with consumer(world) as second:
                await asyncio.sleep(20)
                health = first.health()
                assert health.state == "rebalancing"
                assert health.is_ready
                assert "a rebalance has been in progress for" in health.reason
                assert second.health().state == "joining"
                done.set()
                await asyncio.sleep(20)
                assert first.health().state == second.health().state == "joined"
                assert first.health().reason == ""
            holding.cancel()

    live(life, 4)


def test_a_coordinator_that_dies_during_a_join_ends_the_session() -> None:
    """The join would wait for ``max_poll_interval_ms``, and partitions that stay are read on."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5_000, 5)
        done = asyncio.Event()
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
        async with consumer(world, **options) as first, consumer(world, **options) as second:
            await asyncio.sleep(20)
            gives = first if len(first.assignment) == 3 else second
            stays = second if gives is first else first
            holding = asyncio.create_task(hold(gives, done))
            reading = asyncio.create_task(reads(stays, found))
            third, fourth = consumer(world, **options), consumer(world, **options)
            async with third:
                await asyncio.sleep(10)  # it gets a partition of the one that holds its records
                async with fourth:
                    await asyncio.sleep(10)
                    assert stays.health().state == "rebalancing"
                    coordinator = model_of(world).coordinators.groups.partition_of("g").leader
                    assert coordinator is not None
                    world.cluster.stall(coordinator)
                    await asyncio.sleep(20)  # the session is 10 s
                    assert stays.health().state == "silent"
                    before = len(found)
                    await asyncio.sleep(30)
                    assert len(found) == before, "other members may have its partitions"
                    world.cluster.release(coordinator)
                    done.set()
                    await asyncio.sleep(60)
                    assert stays.health().state == "joined"
                    assert len(found) > before
            reading.cancel()
            holding.cancel()

    live(life, 5, brokers=3, seed=1)


@each_protocol
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("way", ["callback", "work", "long work"])
def test_the_end_of_each_partition_is_told_once(protocol: str, strategy: str, way: str) -> None:
    """Partitions are lost while the application hears of their revocation, or before it does."""
    told: list[tuple[str, TopicPartition]] = []

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        revoking = asyncio.Event()

        def note(what: str, partitions: Collection[TopicPartition]) -> None:
            told.extend((what, each) for each in partitions)

        def revoked(partitions: Collection[TopicPartition]) -> None:
            note("ended", partitions)
            if way == "callback" and not revoking.is_set():
                revoking.set()
                world.freeze(60)

        first = consumer(
            world,
            on_assigned=lambda partitions: note("began", partitions),
            on_revoked=revoked,
            on_lost=lambda partitions: note("ended", partitions),
            max_poll_interval_ms=60_000,
            group_protocol=protocol,
            partition_assignment_strategy=strategy,
        )

        async def read() -> None:
            async for _ in first.lists(100):
                if not revoking.is_set():
                    await asyncio.sleep(20)
                    if way == "work":
                        revoking.set()
                        world.freeze(60)
                    elif way == "long work":
                        revoking.set()
                        await asyncio.sleep(70)

        async with first:
            reading = asyncio.create_task(read())
            await asyncio.sleep(10)
            options: dict[str, Any] = {"partition_assignment_strategy": strategy}
            async with consumer(world, group_protocol=protocol, **options):
                await asyncio.sleep(150)
                assert revoking.is_set()
                for _, where in told:
                    turns = [what for what, each in told if each == where]
                    owned = where in first.assignment
                    assert turns == ["began", "ended"] * (len(turns) // 2) + ["began"] * owned
            reading.cancel()

    live(life, 4)
    assert told


@each_protocol
def test_a_deleted_topic_does_not_end_the_loop_over_another_one(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("bills", 1)
        await fill(world, 400, 2)
        found: list[ConsumerRecord] = []
        topics = ("orders", "bills")
        async with consumer(world, topics=topics, group_protocol=protocol) as reader:
            reading = asyncio.create_task(reads(reader, found))
            await asyncio.sleep(10)
            async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                await admin.delete_topics("bills")
            await asyncio.sleep(30)
            assert {each.topic for each in reader.assignment} == {"orders"}
            await asyncio.sleep(300)
            assert not reading.done()
            assert len(found) == 400
            assert reader.health().reason == ""
            reading.cancel()

    live(life, 2)


def test_a_consumer_that_nobody_reads_from_says_so() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, max_poll_interval_ms=60_000) as reader:
            with suppress(TimeoutError):
                async with asyncio.timeout(100):
                    async for _ in reader.lists():
                        assert not reader.health().reason
            assert reader.health().reason == ""
            await asyncio.sleep(40)
            assert "nothing has read from this consumer for 40 s" in reader.health().reason
            assert reader.health().is_degraded

    live(life)


def test_a_deleted_topic_ends_no_member_that_can_not_divide_anew() -> None:
    """The leader of the group, which could, has no partition of the topic and learns it later."""

    async def life(world: SimulatedWorld) -> None:
        world.cluster.create_topic("bills", 1)
        await fill(world, 100, 2)
        found: list[ConsumerRecord] = []
        options: dict[str, Any] = {"topics": ("orders", "bills"), "max_block_ms": 5_000}
        async with consumer(world, client_id="b", **options) as first:
            await asyncio.sleep(10)
            async with consumer(world, client_id="a", **options) as second:
                await asyncio.sleep(10)
                assert {each.topic for each in first.assignment} == {"orders"}
                assert {each.topic for each in second.assignment} == {"orders", "bills"}
                reading = asyncio.create_task(reads(second, found))
                async with Admin(bootstrap_servers=world.cluster.bootstrap_servers) as admin:
                    await admin.delete_topics("bills")
                await asyncio.sleep(100)
                assert {each.topic for each in second.assignment} == {"orders", "bills"}
                assert not reading.done()
                await asyncio.sleep(400)
                assert {each.topic for each in second.assignment} == {"orders"}
                assert found
                reading.cancel()

    live(life, 2)


def test_a_callback_that_hangs_is_named() -> None:
    async def life(world: SimulatedWorld) -> None:
        async def hang(_: object) -> None:
            await asyncio.sleep(1_000)

        async with consumer(world, on_assigned=hang) as reader:
            await asyncio.sleep(60)
            assert "hang" in reader.health().reason
            assert "has been running for 5" in reader.health().reason
            assert "not known" not in reader.health().reason

    live(life)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_of_a_group_without_a_topic_waits_for_it(strategy: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        options: dict[str, Any] = {"topics": ("later",), "partition_assignment_strategy": strategy}
        async with consumer(world, **options) as reader:
            await asyncio.sleep(60)
            assert reader.health().state == "joined"
            world.cluster.create_topic("later", 1)
            await asyncio.sleep(30)
            assert {each.topic for each in reader.assignment} == {"later"}

    live(life)


@each_protocol
@pytest.mark.parametrize("rack", ["south", ""])
def test_a_group_knows_the_racks_of_its_members(protocol: str, rack: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world, client_rack=rack, group_protocol=protocol):
            await asyncio.sleep(10)
            group: Any = model_of(world).coordinators.groups.find("g")
            [member] = group.members.values()
            if protocol == "consumer":
                assert (member.rack_id or "") == rack
            else:
                schema = data_schema("consumer_protocol_subscription")
                said, _ = schema.decode(member.protocols["range"], 2, 3)
                assert (said.rack_id or "") == rack

    live(life)
