"""Partitions that come, go and pause while a fetcher reads."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from aioproducer.model import TopicPartition
from aioproducer.reader.fetcher import Fetcher
from aioproducer.reader.partition import BATCH_OBJECTS, PartitionState
from tests.support.waiting import until
from tests.unit.reader.test_fetcher import (
    PLACES,
    ScriptedClient,
    fetching,
    values,
    written,
)
from tests.unit.reader.test_partition import take, visible

FIRST, SECOND = PLACES
pytestmark = pytest.mark.usefixtures("with_and_without_sessions")


def append(client: ScriptedClient, partition: int, *more: bytes) -> None:
    log = client.logs[partition]
    log += written(*more, first=len(log))
    client.changed.set()


async def nothing_comes(fetcher: Fetcher, seconds: float = 0.05) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await fetcher.next_item()


async def fetched(fetcher: Fetcher, where: TopicPartition, offset: int) -> None:
    """Wait until the records before ``offset`` were read ahead."""
    await until(lambda: fetcher.partitions[where].fetch_offset >= offset, f"{where} is read ahead")


async def test_a_fetcher_without_partitions_waits_for_some() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        for where in PLACES:
            fetcher.release(where)
        await nothing_comes(fetcher)
        fetcher.add([PartitionState(FIRST, 0, None)])
        assert await values(fetcher, 1) == [(0, 0)]


async def test_a_partition_that_is_added_is_read_from_its_position() -> None:
    client = ScriptedClient()
    client.logs = {0: written(b"a"), 1: written(b"a", b"b", b"c")}
    async with fetching(client) as fetcher:
        fetcher.release(SECOND)
        assert await values(fetcher, 1) == [(0, 0)]
        await nothing_comes(fetcher)
        fetcher.add([PartitionState(SECOND, 1, None)])
        assert await values(fetcher, 2) == [(1, 1), (1, 2)]


async def test_a_partition_of_a_new_topic_waits_for_its_leader() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        for where in PLACES:
            fetcher.release(where)
        client.topic_id = UUID(int=2)  # made anew while nobody read it
        fetcher.add([PartitionState(FIRST, 0, None)])
        assert await values(fetcher, 1) == [(0, 0)]


async def test_nothing_of_a_released_partition_is_handed_out() -> None:
    client = ScriptedClient()
    client.logs = {0: written(b"a", b"b"), 1: []}
    async with fetching(client) as fetcher:
        await fetched(fetcher, FIRST, 2)
        fetcher.release(FIRST)
        await nothing_comes(fetcher)
        append(client, 1, b"c")
        assert await values(fetcher, 1) == [(1, 0)]
        assert set(fetcher.partitions) == {SECOND}


async def test_a_response_that_was_on_its_way_is_not_taken_by_who_comes_back() -> None:
    client = ScriptedClient()
    client.silent = {1}
    client.logs[0] = written(b"a", b"b")
    async with fetching(client) as fetcher:
        await until(lambda: bool(client.fetches), "the first partition is fetched")
        fetcher.release(FIRST)
        fetcher.add([PartitionState(FIRST, 1, None)])
        client.silent.clear()
        assert await values(fetcher, 1) == [(0, 1)]


@pytest.mark.parametrize("error", [3, 29], ids=["passes", "is final"])
async def test_an_error_of_a_released_partition_reaches_nobody(error: int) -> None:
    client = ScriptedClient()
    async with fetching(client) as fetcher:
        await until(lambda: bool(client.fetches), "both partitions are fetched")
        client.topic_error = error
        gone = fetcher.partitions[FIRST]
        fetcher.release(FIRST)
        fetcher.read_ahead.fail(gone, RuntimeError())  # type: ignore[arg-type]
        client.topic_error = 0
        append(client, 1, b"a")
        assert await values(fetcher, 1) == [(1, 0)]


async def test_a_paused_partition_keeps_what_it_has_for_later() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"b")
    async with fetching(client) as fetcher:
        await fetched(fetcher, FIRST, 2)
        fetcher.pause(FIRST)
        append(client, 0, b"c")
        append(client, 1, b"d")
        assert await values(fetcher, 1) == [(1, 0)]
        await nothing_comes(fetcher)
        asked = [each.offset for _, request in client.fetches for each in request.partitions]
        fetcher.resume(FIRST)
        assert await values(fetcher, 3) == [(0, 0), (0, 1), (0, 2)]
        assert max(asked) <= 2, "nothing was fetched in the pause"


async def test_a_paused_partition_leaves_its_room_to_the_others() -> None:
    """One that held half of the room would stop the other partitions of its leader for ever."""
    size = len(written(b"x" * 100)[0]) + BATCH_OBJECTS
    client = ScriptedClient()
    client.leaders[1] = (1, 5)
    client.logs = {0: written(*[b"x" * 100] * 20), 1: []}
    async with fetching(client, read_ahead=size * 8) as fetcher:
        await until(lambda: fetcher.partitions[FIRST].buffered >= size * 4, "its half is full")
        fetcher.pause(FIRST)
        assert fetcher.partitions[FIRST].buffered <= size * 2
        append(client, 1, *[b"x" * 100] * 20)
        assert await values(fetcher, 20) == [(1, offset) for offset in range(20)]
        fetcher.resume(FIRST)
        assert await values(fetcher, 20) == [(0, offset) for offset in range(20)]


async def test_what_comes_in_a_pause_takes_no_more_than_its_part() -> None:
    size = len(written(b"x" * 100)[0]) + BATCH_OBJECTS
    client = ScriptedClient()
    client.silent = {1}
    client.logs[0] = written(*[b"x" * 100] * 20)
    async with fetching(client, read_ahead=size * 8) as fetcher:
        await until(lambda: bool(client.fetches), "the first partition is fetched")
        fetcher.pause(FIRST)
        client.silent.clear()
        await fetched(fetcher, FIRST, 1)
        await asyncio.sleep(0.01)
        assert fetcher.partitions[FIRST].buffered <= size * 2
        fetcher.resume(FIRST)
        assert await values(fetcher, 20) == [(0, offset) for offset in range(20)]


@pytest.mark.parametrize(("limit", "offset"), [(0, 1), (1, 2), (2, 3), (3, 4), (9, 4)])
def test_batches_beyond_the_limit_are_fetched_again(limit: int, offset: int) -> None:
    batches = written(b"a", b"b", b"c", b"d")
    state = PartitionState(FIRST, 0, None)
    take(state, *batches)
    state.pop()
    before = state.restarts
    state.keep(limit * (len(batches[0]) + BATCH_OBJECTS))
    assert state.fetch_offset == offset
    assert (state.restarts > before) is (offset < 4), "a response that is on its way is ignored"
    assert visible(state) == [*range(1, offset)]
