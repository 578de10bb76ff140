"""Rebalances: broken joins, members with no strategy in common, callbacks, long ones."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest

from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.consumer.consumer_member import ConsumerMember
from aioproducer.engine.protocol import Api, data_schema
from aioproducer.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    RecordTooLargeError,
    UnknownMemberIdError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import (
    ONE,
    ZERO,
    change,
    consumer,
    each_protocol,
    fill,
    live,
    model_of,
    network_of,
)

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
                tasks.append(asyncio.create_task(read(third)))
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


@each_protocol
@pytest.mark.parametrize("call", ["commit", "pause"])
def test_a_callback_may_be_too_late_for_lost_partitions(protocol: str, call: str) -> None:
    """A program may do the same for lost partitions as for revoked ones."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        told: list[Partitions] = []

        async def save(partitions: Partitions) -> None:
            told.append(partitions)
            if call == "commit":
                await reader.commit()
            else:
                reader.pause(*partitions)

        way: dict[str, Any] = {"group_protocol": protocol, "auto_commit": False}
        async with consumer(world, on_revoked=save, on_lost=save, **way) as reader:
            records = aiter(reader)
            assert [(await anext(records)).offset for _ in range(2)] == [0, 1]
            world.cluster.fail_next(HEARTBEATS[protocol], UnknownMemberIdError)
            await asyncio.sleep(5)
            assert told == [{ZERO}]
            async with asyncio.timeout(100):
                assert (await anext(records)).offset == 0

    live(life)


@each_protocol
def test_an_error_of_the_callbacks_own_work_is_raised(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)

        async def store(_: Partitions) -> None:
            raise RecordTooLargeError("the state of the partitions")

        way: dict[str, Any] = {"group_protocol": protocol, "auto_commit": False}
        async with consumer(world, on_lost=store, **way) as reader:
            records = aiter(reader)
            await anext(records)
            world.cluster.fail_next(HEARTBEATS[protocol], UnknownMemberIdError)
            await asyncio.sleep(5)
            with pytest.raises(RecordTooLargeError, match="the state of the partitions"):
                await anext(records)

    live(life)


@each_protocol
def test_a_callback_that_hangs_keeps_no_partition_from_other_members(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 100, 2)
        goes_on = asyncio.Event()

        async def hang(_: Partitions) -> None:
            await goes_on.wait()

        way: dict[str, Any] = {"group_protocol": protocol, "max_poll_interval_ms": 60_000}
        async with consumer(world, on_assigned=hang, **way) as first:
            stuck = asyncio.create_task(read(first))
            await asyncio.sleep(10)
            async with consumer(world, **way) as second:
                reading = asyncio.create_task(read(second))
                await asyncio.sleep(300)
                assert second.assignment == {ZERO, ONE}
                assert first.assignment == set()
                goes_on.set()
                await asyncio.sleep(60)
                assert len(first.assignment) == len(second.assignment) == 1
                reading.cancel()
            stuck.cancel()

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


async def hold(reader: Consumer, done: asyncio.Event) -> None:
    """Have records in work: a rebalance waits for them."""
    async for _ in reader.lists(10_000):
        await done.wait()


async def reads(reader: Consumer, found: list[ConsumerRecord]) -> None:
    async for record in reader:
        found.append(record)
        await asyncio.sleep(0.5)


def test_no_member_waits_for_another_ones_heartbeat() -> None:
    """All have got their partitions at one time, and so they notice the next rebalance at one."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 12, 6)
        options: dict[str, Any] = {"heartbeat_interval_ms": 3_000}
        async with consumer(world, **options) as first:
            await asyncio.sleep(10.5)
            async with consumer(world, **options) as second:
                await asyncio.sleep(10)
                for wait in (20, 21, 22):
                    async with consumer(world, **options):
                        await asyncio.sleep(wait)
                    await asyncio.sleep(wait)
                took = [
                    each.metrics()["consumer-coordinator-metrics"]["rebalance-latency-max"]
                    for each in (first, second)
                ]
                assert first.health().rebalances > 6
                assert max(took) < 500, "milliseconds"

    live(life, 6)


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
        options: dict[str, Any] = {"group_protocol": protocol}
        if protocol == "classic":
            options["partition_assignment_strategy"] = strategy

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
            **options,
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
            async with consumer(world, **options):
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


async def read_none(reader: Consumer) -> None:
    """The application never reads."""


async def read_one(reader: Consumer) -> None:
    async for _ in reader:
        await reader.commit()
        break


async def read_until_a_handler_fails(reader: Consumer) -> None:
    async def fail(_: ConsumerRecord) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await reader.run(fail)


@each_protocol
@pytest.mark.parametrize("begin", [read_none, read_one, read_until_a_handler_fails])
def test_a_member_that_nobody_reads_leaves_until_it_is_asked(
    protocol: str, begin: Callable[[Consumer], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        options: dict[str, Any] = {"group_protocol": protocol, "max_poll_interval_ms": 30_000}
        async with consumer(world, client_id="a", **options) as first:
            await begin(first)
            async with consumer(world, client_id="b", **options) as second:
                found: list[ConsumerRecord] = []
                reading = asyncio.create_task(reads(second, found))
                await asyncio.sleep(20)
                assert first.health().is_ready
                await asyncio.sleep(40)
                assert len({(each.partition, each.offset) for each in found}) >= 39
                health = first.health()
                assert not health.is_ready
                assert "not in group 'g' until it is asked for records" in health.reason
                assert "nobody has read from this consumer, and records wait" in caplog.text
                await asyncio.sleep(100)
                assert not first.assignment
                again = asyncio.create_task(read(first))
                await asyncio.sleep(20)
                assert len(first.assignment) == len(second.assignment) == 2
                assert first.health().is_ready
                for task in (reading, again):
                    task.cancel()

    live(life, 4)


@each_protocol
def test_a_member_without_records_stays_though_nobody_reads(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        options: dict[str, Any] = {"group_protocol": protocol, "max_poll_interval_ms": 30_000}
        async with consumer(world, **options) as reader:
            await asyncio.sleep(200)
            await fill(world, 40, 4)
            await asyncio.sleep(20)
            assert reader.health().is_ready, "its records have waited for less than the interval"
            found: list[ConsumerRecord] = []
            reading = asyncio.create_task(reads(reader, found))
            await asyncio.sleep(20)
            assert len(found) == 40
            reading.cancel()

    live(life, 4)


STATIC: dict[str, Any] = {"group_protocol": "consumer", "group_instance_id": "till-1"}


def test_a_second_member_with_an_instance_id_is_told_who_has_it() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        async with consumer(world, client_id="a", **STATIC) as first:
            reading = asyncio.create_task(read(first))
            await asyncio.sleep(10)
            async with consumer(world, client_id="b", **STATIC) as second:
                with pytest.raises(KafkaError, match="'till-1' of group 'g' belongs to") as caught:
                    await anext(aiter(second))
                assert caught.value.name == "UNRELEASED_INSTANCE_ID"
            assert len(first.assignment) == 4
            reading.cancel()

    live(life, 4)


def test_an_instance_that_comes_back_after_a_crash_waits_for_its_old_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_farewell(*_: object) -> None:
        """A killed process takes no leave."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 4)
        async with consumer(world, client_id="a", **STATIC) as first:
            await first.lists().__anext__()
            with monkeypatch.context() as patch:
                patch.setattr(ConsumerMember, "leave", no_farewell)
                await first.close()
        async with consumer(world, client_id="b", **STATIC) as second:
            reading = asyncio.create_task(read(second))
            await asyncio.sleep(30)
            assert not second.assignment
            await asyncio.sleep(30)
            assert len(second.assignment) == 4
            reading.cancel()

    live(life, 4)


@each_protocol
def test_a_static_member_that_is_stuck_keeps_its_partitions_until_its_session_ends(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Java, where it sends no heartbeats from ``max.poll.interval.ms`` on."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        options: dict[str, Any] = {
            "max_poll_interval_ms": 30_000,
            "session_timeout_ms": 45_000,
            "group_protocol": protocol,
        }
        async with consumer(world, group_instance_id="till-1", **options) as first:
            records = aiter(first)
            await anext(records)
            await asyncio.sleep(35)
            assert not first.assignment, "it has given up"
            async with consumer(world, **options) as second:
                reading = asyncio.create_task(read(second))
                await asyncio.sleep(20)
                assert not second.assignment
                await asyncio.sleep(100)
                assert second.assignment
                reading.cancel()
            await fill(world, 1, 1)
            async with asyncio.timeout(100):
                await anext(records)

    live(life)
    kept = "keeps its partitions until its session ends"
    told = [each for each in caplog.messages if "max_poll_interval_ms" in each]
    assert [kept in each for each in told] == [True, True], told


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


def test_a_member_with_another_strategy_is_told_what_to_use() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world) as first:
            await anext(aiter(first))
            async with consumer(world, partition_assignment_strategy="sticky") as other:
                with pytest.raises(
                    KafkaError,
                    match=r"another partition_assignment_strategy than 'sticky'; use the same$",
                ) as raised:
                    await anext(aiter(other))
        assert raised.value.name == "INCONSISTENT_GROUP_PROTOCOL"

    live(life)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("connect", "it is a group of the type 'connect', not of consumers; use another group_id"),
        ("consumer", "its members have group_protocol='consumer'; use the same"),
        ("silent", "another partition_assignment_strategy than 'range'; use the same"),
    ],
)
def test_a_member_that_a_group_of_another_kind_refuses_is_told_the_kind(
    kind: str, says: str
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        model = model_of(world)
        model.cluster.options = replace(
            model.cluster.options, group_consumer_migration_policy="disabled"
        )
        strategy: dict[str, Any] = {"partition_assignment_strategy": "sticky"}
        first = {"group_protocol": "consumer"} if kind == "consumer" else strategy
        async with consumer(world, **first) as reader:
            await anext(aiter(reader))
            if kind == "connect":
                group: Any = model.coordinators.groups.find("g")
                group.protocol_type = "connect"
            elif kind == "silent":
                world.cluster.fail_next(Api.LIST_GROUPS, GroupAuthorizationFailedError)
            async with consumer(world) as other:
                with pytest.raises(KafkaError, match=re.escape(says) + r"$") as raised:
                    await anext(aiter(other))
        assert raised.value.name == "INCONSISTENT_GROUP_PROTOCOL"

    live(life)


def test_a_newer_member_that_a_classic_group_refuses_is_told_what_to_use() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        model = model_of(world)
        model.cluster.options = replace(
            model.cluster.options, group_consumer_migration_policy="disabled"
        )
        async with consumer(world) as first:
            await anext(aiter(first))
            async with consumer(world, group_protocol="consumer") as other:
                with pytest.raises(
                    KafkaError,
                    match=r"group_id, or group_protocol='classic' if its members have that$",
                ) as raised:
                    await anext(aiter(other))
        assert raised.value.name == "GROUP_ID_NOT_FOUND"

    live(life)


# --- several assignors -------------------------------------------------------------------------

BOTH = ["range", "cooperative-sticky"]


@pytest.mark.parametrize("first", ["range", "sticky", "roundrobin"])
def test_a_group_changes_its_strategy_while_it_reads(first: str) -> None:
    """Two rolling restarts, as with Kafka's own client (KIP-429)."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 200, 4)
        seen: set[tuple[int, int]] = set()

        async def member(name: str, strategy: Any) -> None:
            options: Any = {"client_id": name, "partition_assignment_strategy": strategy}
            async with consumer(world, **options) as reader:
                async for record in reader:
                    seen.add((record.partition, record.offset))
                    await asyncio.sleep(0.05)

        steps: list[Any] = [first, [first, "cooperative-sticky"], "cooperative-sticky"]
        members = {each: asyncio.ensure_future(member(each, first)) for each in "ab"}
        for step in steps[1:]:
            for name in members:
                await asyncio.sleep(5)
                members[name].cancel()
                await asyncio.wait([members[name]])
                members[name] = asyncio.ensure_future(member(name, step))
        await asyncio.sleep(30)
        assert not any(each.done() for each in members.values())
        assert seen == {(number % 4, number // 4) for number in range(200)}
        for each in members.values():
            each.cancel()

    live(life, 4)


def test_the_coordinator_takes_a_strategy_that_all_members_have() -> None:
    async def life(world: SimulatedWorld) -> None:
        options: list[Any] = [["range", "sticky"], ["roundrobin", "sticky", "range"], "sticky"]
        async with AsyncExitStack() as stack:
            readers = [
                await stack.enter_async_context(
                    consumer(world, partition_assignment_strategy=each, client_id=f"m{number}")
                )
                for number, each in enumerate(options)
            ]
            await asyncio.sleep(15)
            assert sorted(len(each.assignment) for each in readers) == [1, 1, 1]
            wrong = consumer(world, partition_assignment_strategy=["range", "roundrobin"])
            async with wrong:
                with pytest.raises(KafkaError, match="'range', 'roundrobin'; use the same"):
                    await anext(aiter(wrong))

    live(life, 3)


def test_a_member_with_an_eager_strategy_beside_is_eager() -> None:
    """Java: a member is cooperative if all of its assignors are."""

    async def life(world: SimulatedWorld) -> None:
        told: list[tuple[str, int]] = []
        options: Any = {
            "on_revoked": lambda partitions: told.append(("revoked", len(partitions))),
            "partition_assignment_strategy": BOTH,
        }
        async with consumer(world, **options) as reader:
            await asyncio.sleep(10)
            assert not reader._parts.protocol.member.cooperative  # type: ignore[attr-defined]
            async with consumer(world, partition_assignment_strategy="cooperative-sticky"):
                await asyncio.sleep(20)
                assert told[0] == ("revoked", 2)
                assert len(reader.assignment) == 1

    live(life, 2)
