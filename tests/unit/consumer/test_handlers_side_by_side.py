"""``run()``: what one partition does holds up no other, and a pause and a close reach handlers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ONE, ZERO, consumer, each_protocol, fill, live

each_order = pytest.mark.parametrize("order", ["partition", "key", "none"])


# --- pause() -----------------------------------------------------------------------------------


@each_order
def test_no_handler_begins_with_a_record_of_a_paused_partition(order: Any) -> None:
    """The others get all slots meanwhile; afterwards nothing is skipped, and nothing comes twice."""

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
            while len(begun[0]) < 20:
                await asyncio.sleep(0.01)
            for _ in range(3):
                reader.pause(ZERO)
                paused_at, most = len(begun[0]), 0
                await asyncio.sleep(0.5)
                assert len(begun[0]) == paused_at
                assert most == (1 if order == "partition" else 4)
                reader.resume(ZERO)
                reader.pause(ZERO)
                reader.resume(ZERO)
                async with asyncio.timeout(10):
                    while len(begun[0]) == paused_at:
                        await asyncio.sleep(0.01)
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
            while not (done[ZERO] and done[ONE]):
                await asyncio.sleep(0.01)
            one.pause(*one.assignment)
            before = world.now
            async with consumer(world, group_protocol=protocol) as other:
                reading = asyncio.create_task(other.run(handle))
                while len(other.assignment) != 1:
                    await asyncio.sleep(0.1)
                assert world.now - before < 20
                one.resume(*one.assignment)
                await asyncio.sleep(30)
                reading.cancel()
                running.cancel()
        assert all({*done[each]} == {*range(200)} for each in (ZERO, ONE))

    live(life, 2)
