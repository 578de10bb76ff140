"""Reads that wait for records no longer than they are told."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.errors import ConfigError, IllegalStateError, RecordDeserializationError
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ZERO, consumer, fill, live


async def write_later(world: SimulatedWorld, seconds: float, records: int) -> None:
    await asyncio.sleep(seconds)
    await fill(world, records, 1)


def test_a_list_is_empty_if_no_record_comes_in_time() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)
        async with consumer(world, auto_commit=False) as reader:
            lists = reader.lists(3, max_wait_ms=20_000)
            assert [each.offset for each in await anext(lists)] == [0, 1, 2]
            assert [each.offset for each in await anext(lists)] == [3, 4]
            began = world.now
            assert await anext(lists) == []
            assert 20 <= world.now - began < 21
            writing = asyncio.create_task(write_later(world, 10, 2))
            assert [each.offset for each in await anext(lists)] == [5, 6]
            await writing
            assert reader.positions == {ZERO: 7}
            await reader.commit()
            assert world.cluster.committed_offsets("g")[ZERO].offset == 7
            reader.finish()
            with pytest.raises(StopAsyncIteration):
                await anext(lists)

    live(life)


def test_records_one_by_one_with_a_deadline() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        async with consumer(world) as reader:
            for offset in range(3):
                record = await reader.record(max_wait_ms=20_000)
                assert record is not None
                assert record.offset == offset
                await asyncio.sleep(5)
                assert world.cluster.committed_offsets("g").get(ZERO, (0,))[0] == offset
            began = world.now
            assert await reader.record(max_wait_ms=2_000) is None
            assert 2 <= world.now - began < 3
            await asyncio.sleep(5)
            assert world.cluster.committed_offsets("g")[ZERO].offset == 3, "asking acknowledges"
            writing = asyncio.create_task(write_later(world, 10, 1))
            last = await reader.record()
            assert last is not None
            assert last.offset == 3
            await writing
            reader.finish()
            assert await reader.record() is None

    live(life)


@pytest.mark.parametrize("skips", [False, True])
def test_a_deserializer_may_take_longer_than_the_wait_for_a_record(skips: bool) -> None:
    """It would begin again with each call, and so would a dead letter that is written."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        begun: list[int] = []
        skipped: list[int] = []

        async def slow(data: bytes) -> bytes:
            begun.append(int(data))
            await asyncio.sleep(0.5)
            if skips:
                raise ValueError
            return data

        async def skip(error: RecordDeserializationError) -> None:
            await asyncio.sleep(0.5)
            skipped.append(error.record.offset)

        on_error = skip if skips else None
        found: list[int] = []
        async with consumer(
            world, value_deserializer=slow, on_deserialization_error=on_error
        ) as reader:
            for _ in range(100):
                record = await reader.record(max_wait_ms=100)
                if record is not None:
                    found.append(record.offset)
        assert begun == [0, 1, 2]
        assert (skipped if skips else found) == [0, 1, 2]

    live(life)


def test_a_record_that_is_skipped_too_late_is_committed_at_the_end() -> None:
    """Its dead letter would be written again each time that a program reads what there is."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 3, 1)
        skipped: list[int] = []

        def fail(data: bytes) -> bytes:
            raise ValueError

        async def skip(error: RecordDeserializationError) -> None:
            await asyncio.sleep(0.5)
            skipped.append(error.record.offset)

        for number in range(3):
            async with consumer(
                world, value_deserializer=fail, on_deserialization_error=skip
            ) as reader:
                while len(skipped) == number:
                    assert await reader.record(max_wait_ms=100) is None
        assert skipped == [0, 1, 2]

    live(life)


def test_a_loop_returns_the_last_record_of_a_call_again() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 4, 1)
        async with consumer(world) as reader:
            await reader.record()
            await reader.record()
            records = aiter(reader)
            assert (await anext(records)).offset == 1
            assert (await anext(records)).offset == 2
            again = await reader.record()
            assert again is not None
            assert again.offset == 2
            with pytest.raises(IllegalStateError, match="another loop works on a record"):
                await anext(records)

    live(life)


def test_a_deadline_that_passes_during_a_join_loses_nothing() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 50, 1)
        found: list[int] = []
        async with consumer(world) as reader:
            lists = reader.lists(7, max_wait_ms=1)
            while len(found) < 50:
                found += [each.offset for each in await anext(lists)]
        assert found == [*range(50)]

    live(life)


@pytest.mark.parametrize("wait", [0, -1, 1.5, True, "1 s"])
def test_what_is_no_deadline_is_refused(wait: int) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with consumer(world) as reader:
            with pytest.raises(ConfigError, match="max_wait_ms is an int, at least 1"):
                reader.lists(max_wait_ms=wait)
            with pytest.raises(ConfigError, match="max_wait_ms is an int, at least 1"):
                await reader.record(max_wait_ms=wait)

    live(life)
