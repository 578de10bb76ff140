"""How a consumer ends: finished by a signal, closed, and what its callbacks hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import (
    ClientBrokenError,
    ClientClosedError,
    FencedInstanceIdError,
    IllegalStateError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.inside import all_tasks
from tests.support.simulated_world import ONE, ZERO, consumer, each_protocol, fill, live, model_of

Partitions = Collection[TopicPartition]


# --- finish() ----------------------------------------------------------------------------------


def test_a_loop_that_is_finished_ends_behind_its_record() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        read = 0
        async with consumer(world) as reader:
            async for _ in reader:
                read += 1
                if read == 7:
                    reader.finish()
            assert sum(reader.positions.values()) == 7
            assert [each async for each in reader] == []
        assert read == 7
        committed = world.cluster.committed_offsets("g")
        assert sum(each.offset for each in committed.values()) == 7

    live(life, 2)


def test_a_loop_that_waits_is_finished() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world) as reader:
            asyncio.get_running_loop().call_later(5, reader.finish)
            async with asyncio.timeout(10):
                assert [each async for each in reader.lists()] == []
                assert [each async for each in reader.batches()] == []

    live(life)


@pytest.mark.parametrize("order", ["partition", "none"])
def test_handlers_that_are_finished_are_done_with_their_records(order: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 400, 2)
        begun: list[ConsumerRecord] = []
        done: list[ConsumerRecord] = []

        async def handle(record: ConsumerRecord) -> None:
            begun.append(record)
            await asyncio.sleep(1 + record.offset % 3)
            done.append(record)

        async with consumer(world) as reader:
            asyncio.get_running_loop().call_later(20, reader.finish)
            async with asyncio.timeout(30):
                await reader.run(handle, concurrency=5, order=order)  # type: ignore[arg-type]
        assert begun
        assert len(done) == len(begun) < 400
        committed = world.cluster.committed_offsets("g")
        assert sum(each.offset for each in committed.values()) == len(done), "no gap is left"

    live(life, 2)


def test_handlers_with_nothing_to_do_are_finished() -> None:
    async def life(world: SimulatedWorld) -> None:
        async def handle(record: ConsumerRecord) -> None: ...

        async with consumer(world) as reader:
            asyncio.get_running_loop().call_later(5, reader.finish)
            async with asyncio.timeout(10):
                await reader.run(handle)

    live(life)


# --- callbacks at the end ----------------------------------------------------------------------


@each_protocol
def test_a_close_tells_of_the_partitions_before_its_commit(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 2)
        told: list[tuple[str, Partitions]] = []

        async def revoked(partitions: Partitions) -> None:
            told.append(("revoked", partitions))
            await reader.commit({ZERO: 3})
            assert (await reader.committed(ZERO))[ZERO] is not None

        reader = consumer(
            world,
            on_revoked=revoked,
            on_lost=lambda partitions: told.append(("lost", partitions)),
            auto_commit=False,
            group_protocol=protocol,
        )
        async with reader:
            await anext(aiter(reader))
        assert told == [("revoked", {ZERO, ONE})]
        assert world.cluster.committed_offsets("g")[ZERO].offset == 3

    live(life, 2)


@each_protocol
@pytest.mark.parametrize("seconds", [2, 60])
def test_a_close_during_a_revocation_lets_its_callback_end(protocol: str, seconds: int) -> None:
    """Within the time of a close; a longer callback is cancelled."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 2)
        assigned, began = asyncio.Event(), asyncio.Event()
        told: list[Partitions] = []
        ended: list[Partitions] = []

        async def revoked(partitions: Partitions) -> None:
            told.append(partitions)
            began.set()
            await asyncio.sleep(seconds)
            await reader.commit({min(partitions): 3})
            ended.append(partitions)

        reader = consumer(
            world,
            on_assigned=lambda _: assigned.set(),
            on_revoked=revoked,
            auto_commit=False,
            group_protocol=protocol,
        )
        await reader.start()
        await assigned.wait()
        async with consumer(world, group_protocol=protocol):
            await began.wait()
            closed = world.now
            await reader.close()
            assert world.now - closed < 15
        assert ended == (told if seconds == 2 else [])
        assert {*told[0], *(each for more in told[1:] for each in more)} == {ZERO, ONE}
        if seconds == 2:
            first = min(told[0])
            assert world.cluster.committed_offsets("g")[first].offset == 3

    live(life, 2)


def test_a_close_after_a_failed_callback_tells_what_was_lost() -> None:
    async def life(world: SimulatedWorld) -> None:
        lost: list[Partitions] = []

        def assigned(partitions: Partitions) -> None:
            raise ZeroDivisionError

        async with consumer(world, on_assigned=assigned, on_lost=lost.append) as reader:
            with pytest.raises(ClientBrokenError, match="ZeroDivisionError"):
                await anext(aiter(reader))
        assert lost == [{ZERO}]

    live(life)


def test_an_error_of_a_callback_at_the_end_keeps_nothing_from_being_done() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)

        def revoked(partitions: Partitions) -> None:
            raise ZeroDivisionError

        reader = consumer(world, on_revoked=revoked)
        await reader.start()
        records = aiter(reader)
        for _ in range(4):
            await anext(records)
        with pytest.raises(ZeroDivisionError):
            await reader.close()
        assert world.cluster.committed_offsets("g")[ZERO].offset == 3
        began = world.now
        async with consumer(world) as other:  # the group does not wait for the one that is gone
            assert (await anext(aiter(other))).offset == 3
        assert world.now - began < 5

    live(life)


def test_a_callback_that_ignores_everything_holds_up_no_close() -> None:
    async def life(world: SimulatedWorld) -> None:
        async def revoked(partitions: Partitions) -> None:
            while True:
                try:
                    await asyncio.sleep(1_000)
                except asyncio.CancelledError:
                    if world.now > 1_000:
                        raise

        reader = consumer(world, on_revoked=revoked)
        await reader.start()
        await asyncio.sleep(10)
        began = world.now
        await reader.close()
        assert world.now - began < 30
        await asyncio.sleep(2_000)

    live(life)


@each_protocol
@pytest.mark.parametrize("waits", [True, False])
def test_a_callback_that_cancels_its_own_task_is_a_line_of_the_log(
    protocol: str, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)

        async def revoked(partitions: Partitions) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if waits:
                await asyncio.sleep(1)

        reader = consumer(world, on_revoked=revoked, group_protocol=protocol)
        await reader.start()
        records = aiter(reader)
        for _ in range(4):
            await anext(records)
        await reader.close()
        assert world.cluster.committed_offsets("g")[ZERO].offset == 3
        assert "could not tell its callbacks at its end: a callback has cancelled" in caplog.text

    live(life)


# --- the end of the event loop -----------------------------------------------------------------


async def end_of_run() -> None:
    """As ``asyncio.run()`` ends: it cancels every task once, and waits for all of them."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@each_protocol
@pytest.mark.parametrize("way", ["loop", "run", "forgotten"])
def test_the_end_of_a_run_commits_and_leaves(protocol: str, way: str) -> None:
    """Of forty records, six are done, and the seventh is in hand."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 1)
        in_hand = asyncio.Event()
        read = cleaned = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal read, cleaned
            read += 1
            if read == 7:
                in_hand.set()
                try:
                    await asyncio.sleep(3600)
                finally:
                    await asyncio.sleep(0.1)  # one that is cancelled twice gets no further
                    cleaned += 1

        async def use() -> None:
            async with consumer(world, group_protocol=protocol) as reader:
                if way == "run":
                    await reader.run(handle, concurrency=1)
                async for record in reader:
                    await handle(record)

        async def forget() -> None:
            reader = consumer(world, group_protocol=protocol)
            await reader.start()
            async for record in reader:
                await handle(record)

        task = asyncio.create_task(forget() if way == "forgotten" else use())
        await in_hand.wait()
        await end_of_run()
        assert task.cancelled()
        assert cleaned == 1
        committed = world.cluster.committed_offsets("g")
        assert {where: each.offset for where, each in committed.items()} == {ZERO: 6}
        group: Any = model_of(world).coordinators.groups.find("g")
        assert group is None or group.members == {}
        assert all_tasks() == {asyncio.current_task()}


def test_calls_before_the_start_and_after_an_end_without_one_say_so() -> None:
    async def life(world: SimulatedWorld) -> None:
        it = consumer(world)
        for call in (it.pause, it.resume):
            with pytest.raises(IllegalStateError, match="was not started"):
                call(ZERO)
        await it.close()
        with pytest.raises(ClientClosedError, match="the Consumer is closed"):
            await it.record()
        with pytest.raises(ClientClosedError, match="the Consumer is closed"):
            it.pause(ZERO)

    live(life)


# --- live or not -------------------------------------------------------------------------------


Life = Callable[[SimulatedWorld, Consumer], Awaitable[tuple[str, str]]]
"""A life up to some state, which it returns with words of the reason."""


async def never_started(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    return "not started", "not started"


async def joined(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await it.start()
    await asyncio.sleep(20)
    return "joined", ""


async def without_coordinator(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    world.cluster.crash(1)
    await asyncio.sleep(30)
    return "silent", "has not answered"


async def closed(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    await it.close()
    return "closed", "closed"


async def closed_before_its_start(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await it.close()
    return "closed", "closed"


async def with_a_task_that_died(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    for task in it._tasks:
        task.cancel()
    await asyncio.sleep(1)
    return "failed", "every read raises"


async def with_a_client_that_died(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    it._client._break(RuntimeError("a bug"))
    return "failed", "a bug"


async def with_an_error_for_good(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    it._fail(FencedInstanceIdError("another member has the group.instance.id"))
    return "failed", "another member"


async def without_its_loop(world: SimulatedWorld, it: Consumer) -> tuple[str, str]:
    await joined(world, it)
    loop = SimpleNamespace(is_closed=lambda: True)
    it._client._loop = loop  # type: ignore[assignment]
    return "failed", "event loop"


RECOVERS: tuple[Life, ...] = (never_started, joined, without_coordinator)
ENDED: tuple[Life, ...] = (
    closed,
    closed_before_its_start,
    with_a_task_that_died,
    with_a_client_that_died,
    with_an_error_for_good,
    without_its_loop,
)


@pytest.mark.parametrize(
    ("steps", "is_live"),
    [*((each, True) for each in RECOVERS), *((each, False) for each in ENDED)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_consumer_that_can_never_go_on_is_not_live(steps: Life, is_live: bool) -> None:
    async def life(world: SimulatedWorld) -> None:
        it = consumer(world)
        loop = asyncio.get_running_loop()
        state, words = await steps(world, it)
        health = it.health()
        assert (health.state, health.is_live) == (state, is_live)
        assert words in health.reason
        assert is_live or not health.is_ready
        it._client._loop = loop
        await it.close()

    live(life)
