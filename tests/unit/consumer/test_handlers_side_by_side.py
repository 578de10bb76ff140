"""``run()``: what one partition does holds up no other, and a pause and a close reach handlers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.errors import ClientClosedError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ONE, ZERO, consumer, each_protocol, fill, live
from tests.support.waiting import until

each_order = pytest.mark.parametrize("order", ["partition", "key", "none"])


# --- pause() -----------------------------------------------------------------------------------


@each_order
def test_no_handler_begins_with_a_record_of_a_paused_partition(order: Any) -> None:
    """The others get all slots meanwhile. Nothing is skipped, and nothing comes twice."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 2_000, 2)
        begun: dict[int, list[int]] = defaultdict(list)
        keys: dict[tuple[int, bytes | None], list[int]] = defaultdict(list)
        at_work = most = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal at_work, most
            begun[record.partition].append(record.offset)
            keys[record.partition, record.key].append(record.offset)
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.01)
            at_work -= 1

        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=4, order=order))
            await until(lambda: len(begun[0]) >= 20)
            for _ in range(3):
                reader.pause(ZERO)
                paused_at = len(begun[0])
                await asyncio.sleep(0.02)  # its handlers that run can finish
                most = 0
                await asyncio.sleep(0.2)
                assert len(begun[0]) == paused_at
                assert most == (1 if order == "partition" else 4)
                reader.resume(ZERO)
                reader.pause(ZERO)
                reader.resume(ZERO)
                await until(lambda: len(begun[0]) != paused_at)  # noqa: B023
            await asyncio.sleep(60)
            running.cancel()
        for offsets in begun.values():
            assert sorted(offsets) == [*range(1_000)]
        if order != "none":
            assert all(offsets == sorted(offsets) for offsets in keys.values())
        committed = world.cluster.committed_offsets("g")
        assert [committed[each].offset for each in (ZERO, ONE)] == [1_000, 1_000]

    live(life, 2)


@each_protocol
@each_order
def test_a_revocation_waits_for_no_paused_record(protocol: str, order: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 400, 2)
        done: dict[TopicPartition, list[int]] = defaultdict(list)
        lasts = 0.0

        async def handle(record: ConsumerRecord) -> None:
            await asyncio.sleep(0.3 if record.offset == 3 else 0.01 + lasts)
            done[record.topic_partition].append(record.offset)

        one = consumer(world, group_protocol=protocol)
        async with one:
            running = asyncio.create_task(one.run(handle, concurrency=3, order=order))
            await until(lambda: done[ZERO] and done[ONE])
            one.pause(*one.assignment)
            before = world.now
            async with consumer(world, group_protocol=protocol) as other:
                reading = asyncio.create_task(other.run(handle))
                await until(lambda: len(other.assignment) == 1)
                assert world.now - before < 20
                one.resume(*one.assignment)
                await asyncio.sleep(30)
                reading.cancel()
                running.cancel()
        assert all({*done[each]} == {*range(200)} for each in (ZERO, ONE))

    live(life, 2)


@each_protocol
@each_order
def test_a_paused_partition_that_is_lost_and_comes_back_is_read(protocol: str, order: Any) -> None:
    """The process is stopped for longer than its session, and a handler takes long to clean up."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 200, 2)
        done: dict[int, set[int]] = defaultdict(set)
        hangs = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            if record.topic_partition == ZERO and record.offset == 5 and not hangs.is_set():
                hangs.set()
                try:
                    await asyncio.sleep(1_000)
                finally:
                    await asyncio.sleep(5)
            await asyncio.sleep(0.01)
            done[record.partition].add(record.offset)

        async with consumer(world, group_protocol=protocol) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=4, order=order))
            await hangs.wait()
            reader.pause(ZERO)
            world.freeze(60)
            await asyncio.sleep(200)
            assert not reader.paused
            assert all(done[each] == {*range(100)} for each in (0, 1))
            running.cancel()

    live(life, 2)


# --- slow partitions ---------------------------------------------------------------------------


@each_order
def test_slow_partitions_hold_up_no_other(order: Any) -> None:
    """Each batch takes more than half of the memory for records that wait."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 8_000, 8)
        done: dict[int, list[int]] = defaultdict(list)
        most = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal most
            most = max(most, workers()._waiting_bytes)
            await asyncio.sleep(1_000 if record.partition < 5 else 0.001)
            done[record.partition].append(record.offset)

        async with consumer(world, read_ahead_bytes=300_000) as reader:

            def workers() -> Any:
                return reader._assignment.handlers

            concurrency = 8 if order == "partition" else 1_400
            running = asyncio.create_task(reader.run(handle, concurrency=concurrency, order=order))
            await asyncio.sleep(20)
            assert {each: sorted(offsets) for each, offsets in done.items()} == {
                each: [*range(1_000)] for each in (5, 6, 7)
            }
            running.cancel()
        assert most < 300_000 + 8 * 256 * 450

    live(life, 8)


def test_what_waits_is_bounded_whatever_the_number_of_partitions() -> None:
    """Records are large: a few use the memory up."""

    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            for number in range(1_200):
                producer.send("orders", bytes(10_000), partition=number % 60)
            await producer.flush()
        done: set[tuple[int, int]] = set()
        most = at_work = most_at_work = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal most, at_work, most_at_work
            at_work += 1
            most_at_work = max(most_at_work, at_work)
            workers: Any = reader._assignment.handlers
            most = max(most, workers._waiting_bytes)
            await asyncio.sleep(0.1)
            done.add((record.partition, record.offset))
            at_work -= 1

        async with consumer(world, read_ahead_bytes=200_000) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=30))
            await asyncio.sleep(30)
            running.cancel()
        assert len(done) == 1_200
        assert most_at_work == 30
        assert most < 200_000 + 30 * 210_000

    live(life, 60)


def test_one_large_batch_keeps_all_handlers_at_work() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 1_000, 1)
        at_work = most = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.1)
            at_work -= 1

        async with consumer(world, read_ahead_bytes=1_000) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=20, order="none"))
            await asyncio.sleep(10)
            running.cancel()
        assert most == 20
        assert world.cluster.committed_offsets("g")[ZERO].offset == 1_000

    live(life)


@each_order
def test_nothing_stays_counted_as_waiting(order: Any) -> None:
    """Some records of a key are slow, the application pauses and seeks, and all are handled."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4_000, 2)
        random = Random(7)
        done: set[tuple[int, int]] = set()

        async def handle(record: ConsumerRecord) -> None:
            if random.random() < 0.05:
                await asyncio.sleep(random.random())
            done.add((record.partition, record.offset))

        async with consumer(world, read_ahead_bytes=20_000) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=10, order=order))
            await until(lambda: len(done) > 100)
            workers: Any = reader._assignment.handlers
            reader.pause(ZERO)
            await asyncio.sleep(2)
            await reader.seek(ONE, 0)
            reader.resume(ZERO)
            await reader.seek(ZERO, 0)
            await until(lambda: len(done) == 4_000 and not workers._at_work)
            assert (workers._waiting_bytes, workers._lines) == (0, {})
            running.cancel()

    live(life, 2)


@each_order
def test_handlers_that_never_wait_have_few_tasks(order: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4_000, 4)
        tasks: list[Any] = []

        async def handle(_: ConsumerRecord) -> None:
            tasks.append(asyncio.current_task())

        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(handle, order=order))
            await until(lambda: len(tasks) == 4_000)
            assert len({*tasks}) < 40
            running.cancel()

    live(life, 4)


@pytest.mark.parametrize("order", ["key", "none"])
def test_one_partition_may_have_all_handlers(order: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            for number in range(3_000):
                producer.send("orders", b"", key=b"%d" % number, partition=0)
            await producer.flush()
        at_work = most = 0

        async def handle(_: ConsumerRecord) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(1)
            at_work -= 1

        async with consumer(world) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=1_000, order=order))
            await asyncio.sleep(5)
            running.cancel()
        assert most == 1_000

    live(life)


# --- finish() ----------------------------------------------------------------------------------


def test_a_finish_waits_for_no_coordinator_that_falls_silent() -> None:
    """A record before finished ones waits for a slow one of its key, and begins no more."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 200, 1)
        done = 0

        async def handle(record: ConsumerRecord) -> None:
            nonlocal done
            await asyncio.sleep(30 if record.key == b"1" else 0.2)
            done += 1

        async with consumer(world, max_poll_interval_ms=600_000) as reader:
            running = asyncio.create_task(reader.run(handle, concurrency=20, order="key"))
            await until(lambda: done > 60)
            world.cluster.stall(1)
            reader.finish()
            await asyncio.wait_for(running, 100)
            world.cluster.release(1)

    live(life)


# --- close() -----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "finish", "cancel"])
@pytest.mark.parametrize("ignores", [False, True])
def test_a_close_ends_a_run_whose_handler_does_not_return(
    before: str, ignores: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 600, 1)
        hangs = asyncio.Event()

        async def handle(record: ConsumerRecord) -> None:
            while record.offset == 7 and world.now < 1_000:
                hangs.set()
                try:
                    await asyncio.sleep(1_000)
                except asyncio.CancelledError:
                    if not ignores:
                        raise

        reader = consumer(world, read_ahead_bytes=1_000)
        await reader.start()
        running = asyncio.create_task(reader.run(handle, concurrency=1))
        await hangs.wait()
        if before == "finish":
            reader.finish()
        elif before == "cancel":
            running.cancel()
        await asyncio.sleep(1)
        began = world.now
        await reader.close()
        expected = asyncio.CancelledError if before == "cancel" else ClientClosedError
        with pytest.raises(expected):
            await running
        assert world.now - began < (10 if ignores else 2)
        assert world.cluster.committed_offsets("g")[ZERO].offset == 7
        await asyncio.sleep(2_000)

    live(life)
    named = "handler of orders-0 at offset 7 ignores its cancellation: run() ends without it"
    assert (named in caplog.text) is ignores
