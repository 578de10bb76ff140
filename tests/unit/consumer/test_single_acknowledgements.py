"""Records that the application acknowledges one by one, in any order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import ConfigError, IllegalStateError, RecordDeserializationError
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing import SimulatedWorld
from tests.support.simulated_world import ONE, ZERO, consumer, each_protocol, fill, live


async def committed(reader: Consumer[Any, Any], where: TopicPartition) -> int | None:
    found = (await reader.committed(where))[where]
    return None if found is None else found.offset


@each_protocol
def test_a_commit_never_passes_the_first_unacknowledged_record(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, group_protocol=protocol) as reader:
            records = aiter(reader.unacknowledged())
            taken = [await anext(records) for _ in range(10)]
            reader.acknowledge(*taken[1:5])
            await reader.commit()
            assert await committed(reader, ZERO) in (None, 0)
            reader.acknowledge(taken[0])
            await asyncio.sleep(3)
            assert await committed(reader, ZERO) == 5, "also by itself"
            reader.acknowledge(taken[0], *taken[6:])
            await reader.commit()
            assert await committed(reader, ZERO) == 5, "twice has no effect"
        async with consumer(world, group_protocol=protocol) as again:
            assert (await anext(aiter(again))).offset == 5
            await again.commit()

    live(life)


def test_a_step_waits_while_too_many_records_are_unacknowledged() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        async with consumer(world) as reader:
            records = reader.unacknowledged(4)
            taken = [await anext(records) for _ in range(4)]
            waiting = asyncio.ensure_future(anext(records))
            await asyncio.sleep(5)
            assert not waiting.done()
            reader.acknowledge(taken[3])
            taken.append(await waiting)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await anext(records)
            reader.acknowledge(taken[0])
            taken.append(await anext(records))
            places = [(each.partition, each.offset) for each in taken]
            assert len(set(places)) == 6, "a cancelled read loses nothing"

    live(life, 2)


@each_protocol
def test_a_revocation_waits_for_the_records_of_its_partitions(protocol: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        async with consumer(world, group_protocol=protocol) as reader:
            taken: list[ConsumerRecord] = []

            async def read() -> None:
                async for each in reader.unacknowledged():
                    taken.append(each)

            reading = asyncio.create_task(read())
            await asyncio.sleep(10)
            assert len(taken) == 40
            async with consumer(world, group_protocol=protocol) as second:
                await asyncio.sleep(10)
                assert not second.assignment
                reader.acknowledge(*taken)
                await asyncio.sleep(10)
                [where] = second.assignment
                assert await committed(reader, where) == 20
            reading.cancel()

    live(life, 2)


@each_protocol
def test_acknowledgements_of_what_was_lost_have_no_effect(protocol: str) -> None:
    """Nor has a program to acknowledge it, so that the member can join again."""

    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        async with consumer(world, group_protocol=protocol) as reader:
            taken: list[ConsumerRecord] = []

            async def read() -> None:
                async for each in reader.unacknowledged(50):
                    taken.append(each)

            reading = asyncio.create_task(read())
            await asyncio.sleep(10)
            assert len(taken) == 40
            reader._refused(25)  # UNKNOWN_MEMBER_ID
            reader.acknowledge(*taken[:10])
            assert reader._progress.unacknowledged == 0
            await asyncio.sleep(60)  # of the coordinator, the former session has to end
            assert len(taken) == 80, "all come again"
            assert reader._progress.unacknowledged == 40
            await reader.commit()
            assert await committed(reader, ZERO) in (None, 0)
            await reader.seek(ONE, "end")
            assert reader._progress.unacknowledged == 20
            reader.acknowledge(*taken[40:])
            assert reader._progress.unacknowledged == 0
            await reader.commit()
            assert (await committed(reader, ZERO), await committed(reader, ONE)) == (20, 20)
            reading.cancel()

    live(life, 2)


def test_a_record_that_nobody_acknowledges_ends_the_membership_for_a_while() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 5, 1)
        async with consumer(world, max_poll_interval_ms=20_000) as reader:
            taken: list[ConsumerRecord] = []

            async def read() -> None:
                async for each in reader.unacknowledged():
                    taken.append(each)
                    if each.offset != 2:
                        reader.acknowledge(each)

            reading = asyncio.create_task(read())
            await asyncio.sleep(10)
            assert [each.offset for each in taken] == [0, 1, 2, 3, 4]
            await asyncio.sleep(30)
            assert [each.offset for each in taken[5:8]] == [2, 3, 4], "they come again"
            reading.cancel()

    live(life)


def test_another_loop_returns_what_is_unacknowledged() -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world) as reader:
            records = reader.unacknowledged()
            taken = [await anext(records) for _ in range(5)]
            reader.acknowledge(taken[0], taken[3])
            others = aiter(reader)
            assert [(await anext(others)).offset for _ in range(3)] == [1, 2, 3]
            with pytest.raises(IllegalStateError, match="another loop works on a record"):
                await anext(records)
            with pytest.raises(IllegalStateError, match=r"for records of consumer\.unacknowl"):
                reader.acknowledge(taken[1])
            with pytest.raises(ConfigError, match="max_unacknowledged is an int, at least 1"):
                reader.unacknowledged(0)

    live(life)


@pytest.mark.parametrize("skips", [True, False])
def test_a_record_that_can_not_be_deserialized(skips: bool) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)

        def not_three(data: bytes) -> int:
            if data == b"3":
                raise ValueError("three")
            return int(data)

        options: Any = {"on_deserialization_error": lambda error: None} if skips else {}
        async with consumer(world, value_deserializer=not_three, **options) as reader:
            records: Any = reader.unacknowledged()
            taken = [await anext(records) for _ in range(3)]
            if not skips:
                for _ in range(2):
                    with pytest.raises(RecordDeserializationError) as caught:
                        await anext(records)
                reader.acknowledge(*taken)
                await reader.commit()
                assert await committed(reader, ZERO) == 3
                await reader.seek(ZERO, caught.value.next_offset)
            taken += [await anext(records) for _ in range(6)]
            assert [each.value for each in taken] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
            reader.acknowledge(*taken)
            await reader.commit()
            assert await committed(reader, ZERO) == 10

    live(life)
