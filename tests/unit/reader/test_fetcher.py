"""A fetcher before scripted leaders: truncation, new leaders, silence, changing partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from time import sleep as time_sleep
from typing import Any, cast
from uuid import UUID

import pytest

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import (
    EARLIEST,
    ClusterDescription,
    FoundOffset,
    IsolationLevel,
    ListOffsetsRequest,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.frames import MAX_RESPONSE_BYTES
from aioproducer.errors import (
    BrokerConnectionError,
    LogTruncatedError,
    ProducerError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.model import Node, TopicPartition
from aioproducer.reader import leaders, positions
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import BATCH_OBJECTS, PartitionState
from aioproducer.reader.positions import find_offsets
from aioproducer.reader.requests import (
    EpochEnd,
    EpochEndRequest,
    Fetched,
    FetchedPartition,
    FetchLimits,
    FetchRequest,
)
from tests.support.responses import at_once
from tests.support.waiting import until
from tests.unit.reader.broker_sessions import BrokerSessions, Found
from tests.unit.reader.test_partition import take, visible
from tests.unit.reader.written import batch

pytestmark = pytest.mark.usefixtures("with_and_without_sessions")


NODES = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
PLACES = [TopicPartition("orders", number) for number in (0, 1)]
OUT_OF_RANGE = 1
FENCED = 74
UNKNOWN_TOPIC = 3
MAX_WAIT = 0.01

Fetch = Callable[[FetchRequest, Node], Awaitable[Fetched]]


class ScriptedClient:
    """The requests of a reader, answered by a log of batches per partition."""

    clock = staticmethod(lambda: asyncio.get_running_loop().time())
    may_pass = staticmethod(ClusterClient.may_pass)
    has_ended = False
    grants_sessions = True
    on_end: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self) -> None:
        self.metrics = ProducerMetrics(now=self.clock())
        self.wall_clock_ns = lambda: round(self.clock() * 1e9)
        self.leaders: dict[int, tuple[int, int]] = {0: (1, 5), 1: (2, 5)}
        """Broker and epoch by partition."""
        self.topic_id: UUID | None = UUID(int=1)
        self.topic_error = 0
        self.logs: dict[int, list[bytes]] = {0: [], 1: []}
        self.first = {0: 0, 1: 0}
        """The first offset that each log still has."""
        self.silent: set[int] = set()
        self.followers: dict[int, int] = {}
        """The broker that the leader of a partition names (KIP-392)."""
        self.errors: dict[tuple[int, int], int] = {}
        """By broker and partition."""
        self.offline: dict[int, tuple[int, ...]] = {}
        self.ends: list[EpochEnd | ProducerError] = []
        self.fetches: list[tuple[int, FetchRequest]] = []
        """With all partitions that a request is about, also those that it does not name."""
        self.sent: list[tuple[int, FetchRequest]] = []
        """As they were sent."""
        self.sessions: defaultdict[int, BrokerSessions] = defaultdict(
            lambda: BrokerSessions(grants=self.grants_sessions)
        )
        """By broker."""
        self.changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def backoff(self) -> ExponentialBackoff:
        return ExponentialBackoff(0.001, 0.002, Random(1))

    def start_task(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(new_task(coroutine))

    def check_usable(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise RuntimeError("a part died") from task.exception()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def description(self) -> ClusterDescription:
        partitions = tuple(
            PartitionDescription(number, leader, epoch, (), (), self.offline.get(number, ()))
            for number, (leader, epoch) in self.leaders.items()
        )
        topic = TopicDescription("orders", self.topic_id, False, self.topic_error, partitions)
        return ClusterDescription(0, "cluster", 1, NODES, {"orders": topic})

    async def retry(self, attempt: Callable[[], Awaitable[None]], **_: object) -> None:
        await attempt()

    async def describe(self, topics: object) -> ClusterDescription:
        await asyncio.sleep(0)
        return self.description()

    async def request(self, request: Any, node: Node, timeout: float | None = None) -> Any:
        if isinstance(request, EpochEndRequest):
            end = self.ends.pop(0)
            if isinstance(end, ProducerError):
                raise end
            return {each.where: end for each in request.partitions}
        if isinstance(request, ListOffsetsRequest):
            return {
                where: FoundOffset(
                    0, self.first[where[1]] if at == EARLIEST else len(self.logs[where[1]]), -1, -1
                )
                for where, at in request.partitions.items()
            }
        assert isinstance(request, FetchRequest)
        self.sent.append((node.id, request))
        sessions = self.sessions[node.id]
        asked = sessions.begin(request)
        if not isinstance(asked, Sequence):
            return Fetched(asked, {})
        whole = replace(request, partitions=asked)
        self.fetches.append((node.id, whole))
        return sessions.end(request, await self.fetch(whole, node))

    async def fetch(self, request: FetchRequest, node: Node) -> Found:
        while node.id in self.silent:
            await self._change()
        found = self._answers(request, node)
        if not any(
            each.records or each.error_code or each.preferred_read_replica >= 0
            for each in found.values()
        ):
            await self._change()
        return self._answers(request, node)

    def _answers(self, request: FetchRequest, node: Node) -> Found:
        return {each.where: self._answer(each, node) for each in request.partitions}

    async def _change(self) -> None:
        """Wait as a leader does: for records, and no longer than it may."""
        self.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT):
                await self.changed.wait()

    def _answer(self, asked: Any, node: Node) -> FetchedPartition:
        number = asked.where.partition
        leader, epoch = self.leaders[number]
        if error := self.errors.get((node.id, number)):
            return FetchedPartition(error, b"", -1, -1, ())
        follower = self.followers.get(number, -1)
        if follower >= 0 and node.id == leader:
            return FetchedPartition(0, b"", len(self.logs[number]), 0, (), follower)
        if node.id not in (leader, follower) or asked.leader_epoch != epoch:
            return FetchedPartition(FENCED, b"", -1, -1, ())
        log, first = self.logs[asked.where.partition], self.first[asked.where.partition]
        if asked.offset < first:
            return FetchedPartition(OUT_OF_RANGE, b"", -1, -1, ())
        return FetchedPartition(0, b"".join(log[asked.offset :]), len(log), len(log), ())


def written(*values: bytes, epoch: int = 5, first: int = 0) -> list[bytes]:
    """A batch for each value."""
    return [batch(offset, value, epoch=epoch) for offset, value in enumerate(values, start=first)]


@asynccontextmanager
async def fetching(
    client: ScriptedClient,
    *,
    end: int | None = None,
    read_ahead: int = 100_000,
    reset: str = "none",
    max_age: float = 3600,
) -> AsyncIterator[Fetcher]:
    leaders = Leaders(["orders"])
    at_once(leaders.taking(client.description(), 0))
    settings = FetchSettings(
        IsolationLevel.READ_UNCOMMITTED,
        FetchLimits(500, 1, max(read_ahead, 1_000_000), 1_000_000),
        read_ahead,
        check_crcs=True,
        offset_reset=reset,
        lookup_timeout=0.05,
        fetch_timeout=30.0,
        metadata_max_age=max_age,
        patience=0.05,
        rack="south",
    )
    states = [PartitionState(place, 0, end) for place in PLACES]
    fetcher = Fetcher(cast("ClusterClient", client), states, leaders, settings)
    client.start_task(fetcher.run(), "run")
    try:
        async with asyncio.timeout(30):
            yield fetcher
    finally:
        await client.close()


async def values(fetcher: Fetcher, count: int) -> list[tuple[int, int]]:
    """Partition and offset of so many batches."""
    found = []
    for _ in range(count):
        taken = await fetcher.next_item()
        assert taken is not None
        state, item = taken
        state.advance(item.next_offset)
        assert item.batch is not None
        found.append((state.where.partition, item.batch.base_offset))
    return found


async def elect(client: ScriptedClient, partition: int, leader: int, epoch: int) -> None:
    client.leaders[partition] = (leader, epoch)
    client.changed.set()
    await asyncio.sleep(0)


async def test_reading_ends_where_every_partition_ends() -> None:
    client = ScriptedClient()
    client.logs = {0: written(b"a", b"b"), 1: written(b"c")}
    async with fetching(client, end=1) as fetcher:
        assert sorted(await values(fetcher, 2)) == [(0, 0), (1, 0)]
        assert await fetcher.next_item() is None


async def test_a_new_leader_with_the_same_log_goes_on() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"b")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 2) == [(0, 0), (0, 1)]
        client.ends.append(EpochEnd(0, 5, 2))
        client.logs[0] += written(b"c", epoch=6, first=2)
        await elect(client, 0, 2, 6)
        assert await values(fetcher, 1) == [(0, 2)]
        assert client.ends == []


async def test_truncated_records_that_nobody_has_seen_are_dropped() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"lost", b"lost")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        client.logs[0] = [*written(b"a"), *written(b"new", epoch=6, first=1)]
        client.ends.append(EpochEnd(0, 5, 1))
        await elect(client, 0, 2, 6)
        await until(lambda: not client.ends, "the new leader was asked")
        await asyncio.sleep(0)
        taken = await fetcher.next_item()
        assert taken is not None
        assert taken[1].batch is not None
        assert taken[1].batch.partition_leader_epoch == 6, "the records of the new leader"


@pytest.mark.parametrize("end", [EpochEnd(0, 5, 1), EpochEnd(0, -1, -1)])
async def test_truncation_behind_the_application_is_an_error_until_it_seeks(end: EpochEnd) -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"read", b"read")
    async with fetching(client) as fetcher:
        assert len(await values(fetcher, 3)) == 3
        client.logs[0] = [*written(b"a"), *written(b"new", b"newer", epoch=6, first=1)]
        client.ends += [end] * 3
        await elect(client, 0, 2, 6)
        for _ in range(2):
            with pytest.raises(LogTruncatedError, match=r"orders-0: .* up to offset 2 had been"):
                await fetcher.next_item()
        fetcher.seek(PLACES[0], 1)
        assert await values(fetcher, 2) == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("reset", "log", "reads_on"),
    [("earliest", [b"a", b"new"], [0, 1]), ("latest", [b"a", b"new"], [2]), ("latest", [], [0])],
)
async def test_truncation_at_an_unknown_offset_resets_as_the_option_says(
    reset: str,
    log: list[bytes],
    reads_on: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [BrokerConnectionError("gone")]

    async def find(*given: Any) -> dict[TopicPartition, int]:
        if failures:
            raise failures.pop()
        return await find_offsets(*given)

    monkeypatch.setattr(positions, "find_offsets", find)
    client = ScriptedClient()
    client.logs = {0: written(b"a", b"read", b"read", b"read"), 1: written(b"other")}
    async with fetching(client, reset=reset) as fetcher:
        assert len(await values(fetcher, 5)) == 5
        client.logs[0] = written(*log, epoch=6)
        client.ends += [BrokerConnectionError("gone"), *[EpochEnd(0, -1, -1)] * 2]
        await elect(client, 0, 2, 6)
        await until(lambda: "reading continues" in caplog.text, "the position is reset")
        client.logs[0] += written(b"newest", epoch=6, first=len(log))
        found = await values(fetcher, len(reads_on))
        assert found == [(0, offset) for offset in reads_on]
        assert client.ends == []
    [warning] = [each for each in caplog.messages if "reading continues" in each]
    assert warning.startswith("orders-0: the log was truncated by an unclean leader election, and ")
    assert warning.endswith(f"; reading continues at offset {reads_on[0]}")


async def test_a_seek_during_the_reset_of_a_truncated_log_counts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[int] = []
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"read", b"read", b"read")
    async with fetching(client, reset="earliest") as fetcher:

        async def find(*given: Any) -> dict[TopicPartition, int]:
            if not sought:
                sought.append(1)
                fetcher.seek(TopicPartition("orders", 0), 1)
            return await find_offsets(*given)

        monkeypatch.setattr(positions, "find_offsets", find)
        assert len(await values(fetcher, 4)) == 4
        client.logs[0] = written(b"a", b"new", b"newer", epoch=6)
        client.ends += [EpochEnd(0, -1, -1)]
        await elect(client, 0, 2, 6)
        await until(lambda: bool(sought), "the position is looked up")
        assert await values(fetcher, 2) == [(0, 1), (0, 2)]
    assert "reading continues" not in caplog.text


async def test_a_leader_that_can_t_tell_is_believed() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        client.logs[0] += written(b"b", epoch=6, first=1)
        client.ends.append(UnsupportedVersionError("old"))
        await elect(client, 0, 2, 6)
        assert await values(fetcher, 1) == [(0, 1)]


async def test_a_validation_that_fails_is_tried_again() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        client.logs[0] += written(b"b", epoch=6, first=1)
        client.ends += [BrokerConnectionError("gone"), EpochEnd(FENCED, -1, -1), EpochEnd(0, 5, 1)]
        await elect(client, 0, 2, 6)
        assert await values(fetcher, 1) == [(0, 1)]


async def test_a_recreated_topic_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "_LONGEST_FAILURE", 0.5)
    client = ScriptedClient()
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        client.topic_id = UUID(int=2)
        await elect(client, 0, 1, 0)
        with pytest.raises(TopicRecreatedError, match="'orders' was deleted and created again"):
            await fetcher.next_item()


async def test_a_topic_that_stays_unknown_is_an_error() -> None:
    client = ScriptedClient()
    async with fetching(client) as fetcher:
        client.topic_error = UNKNOWN_TOPIC
        await elect(client, 0, 2, 6)
        with pytest.raises(UnknownTopicOrPartitionError, match="'orders'"):
            await fetcher.next_item()


async def test_a_silent_leader_does_not_hold_up_the_other() -> None:
    client = ScriptedClient()
    client.silent.add(1)
    client.logs = {0: written(b"a"), 1: written(b"b", b"c")}
    async with fetching(client) as fetcher:
        assert await values(fetcher, 2) == [(1, 0), (1, 1)]
        client.silent.clear()
        client.changed.set()
        assert await values(fetcher, 1) == [(0, 0)]


async def test_nothing_is_fetched_while_half_of_the_read_ahead_is_full() -> None:
    client = ScriptedClient()
    client.logs[0] = written(*[bytes(1000)] * 10)
    async with fetching(client, read_ahead=10_000) as fetcher:
        await values(fetcher, 1)
        sent = [request for broker, request in client.fetches if broker == 1]
        assert [each.partitions[0].offset for each in sent] == [0]
        await values(fetcher, 9)
        await asyncio.sleep(0.01)
        sent = [request for broker, request in client.fetches if broker == 1]
        assert sent[-1].partitions[0].offset == 10
        assert all(each.limits.max_bytes <= 10_000 for each in sent)


async def test_partitions_take_turns() -> None:
    client = ScriptedClient()
    client.leaders[1] = (1, 5)
    client.logs = {0: written(*[b"a"] * 4), 1: written(*[b"b"] * 4)}
    async with fetching(client) as fetcher:
        for state in fetcher.partitions.values():
            await until(lambda state=state: state.fetch_offset == 4, "all is read ahead")
        ready = fetcher.read_ahead._ready
        await until(lambda: len(ready) == len(PLACES), "each one can be taken")
        found = [partition for partition, _ in await values(fetcher, 8)]
        assert found in ([0, 1] * 4, [1, 0] * 4)


async def test_a_seek_to_the_end_ends_a_read_that_waits() -> None:
    client = ScriptedClient()
    async with fetching(client, end=2) as fetcher:
        waiting = asyncio.ensure_future(fetcher.next_item())
        await until(lambda: len(client.fetches) >= 2, "the read waits for records")
        for place in PLACES:
            fetcher.seek(place, 2)
        assert await waiting is None


async def test_an_end_before_the_first_record_that_is_left_is_reached() -> None:
    client = ScriptedClient()
    client.logs = {0: written(b"a", b"b", b"c"), 1: []}
    client.first[0] = 3
    async with fetching(client, end=2, reset="earliest") as fetcher:
        fetcher.seek(PLACES[1], 2)
        assert await fetcher.next_item() is None
        assert fetcher.partitions[PLACES[0]].position == 2


async def test_a_reset_keeps_what_was_read_ahead() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"b")
    async with fetching(client, reset="earliest") as fetcher:
        state = fetcher.partitions[PLACES[0]]
        await until(lambda: state.fetch_offset == 2, "two records are read ahead")
        client.logs[0] += written(b"gone", b"left", first=2)
        client.first[0] = 3
        await until(lambda: state.fetch_offset == 4, "the record that is left is read ahead")
        assert await values(fetcher, 3) == [(0, 0), (0, 1), (0, 3)]
        assert state.position == 4


async def test_truncation_below_an_open_batch_is_an_error() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"open")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        taken = await fetcher.next_item()  # its records are read one by one, the position lags
        assert taken is not None
        client.logs[0] = [*written(b"a"), *written(b"new", epoch=6, first=1)]
        client.ends += [EpochEnd(0, 5, 1)] * 2
        await elect(client, 0, 2, 6)
        await until(lambda: taken[0].has_items, "the truncation is known")
        taken[0].advance(2)
        with pytest.raises(LogTruncatedError, match=r"orders-0: .* up to offset 1 had been"):
            await fetcher.next_item()


@pytest.mark.parametrize("partitions", [1, 2])
async def test_other_tasks_run_between_the_batches_of_a_response(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    client = ScriptedClient()
    client.leaders = {0: (1, 5), 1: (1, 5)}
    client.logs[0] = written(b"a", b"b")
    client.logs[partitions - 1] = written(b"a", b"b")
    turns = 0

    def take_batch(state: PartitionState, *args: Any, **options: Any) -> None:
        taken.append(turns)
        time_sleep(0.005)
        original(state, *args, **options)

    taken: list[int] = []
    original = PartitionState._take_batch
    monkeypatch.setattr(PartitionState, "_take_batch", take_batch)
    async with fetching(client):
        while len(taken) < 2 * partitions:
            await asyncio.sleep(0)
            turns += 1
    assert len(set(taken)) == len(taken)


async def test_a_seek_while_a_response_is_taken_drops_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"b", b"c")
    original = PartitionState._take_batch

    def take_batch(state: PartitionState, *args: Any, **options: Any) -> None:
        original(state, *args, **options)
        if state.restarts == 0:
            fetcher.seek(PLACES[0], 2)

    async with fetching(client) as fetcher:
        monkeypatch.setattr(PartitionState, "_take_batch", take_batch)
        assert await values(fetcher, 1) == [(0, 2)]


async def test_a_leader_that_repeats_old_batches_is_asked_with_pauses() -> None:
    client = ScriptedClient()
    client.logs[0] = written(b"a", b"b")
    async with fetching(client) as fetcher:
        await until(lambda: fetcher.partitions[PLACES[0]].fetch_offset == 2, "all is read ahead")

        async def repeat(request: FetchRequest, node: Node) -> Found:
            old = FetchedPartition(0, b"".join(client.logs[0]), 2, 2, ())
            return {each.where: old for each in request.partitions}

        client.fetch = repeat  # type: ignore[method-assign]
        await until(lambda: fetcher.partitions[PLACES[0]].failures >= 3, "pauses grow")


async def test_a_read_ahead_below_a_byte_for_each_leader_reads() -> None:
    client = ScriptedClient()
    client.logs = {0: written(b"a"), 1: written(b"b")}
    async with fetching(client, read_ahead=1) as fetcher:
        assert sorted(await values(fetcher, 2)) == [(0, 0), (1, 0)]


async def test_no_response_is_asked_for_that_a_connection_refuses() -> None:
    client = ScriptedClient()
    async with fetching(client, read_ahead=2**31 - 1):
        await until(lambda: len(client.fetches) >= 2, "both leaders are asked")
    assert {
        request.limits.max_bytes <= MAX_RESPONSE_BYTES // 2 for _, request in client.fetches
    } == {True}


FIRST, SECOND = PLACES


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
