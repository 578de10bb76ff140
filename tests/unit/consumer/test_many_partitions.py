"""What a member does with its partitions costs as much for each, however many it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer.consumer.assignment import Assignment, AssignmentSettings, Hold
from aioproducer.consumer.consumer import Consumer
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.workers import Workers
from aioproducer.engine.client.describe_request import (
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.groups.reactions import Reaction
from aioproducer.engine.groups.requests import FetchedOffsets
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.model import ConsumerRecord, Node, OffsetAndMetadata, TopicPartition
from aioproducer.reader.cursor import Cursor
from aioproducer.reader.fetch_plan import FetchPlan
from aioproducer.reader.fetch_request import Fetched, FetchLimits
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.leaders import Leaders
from tests.support.operations import Name, counted_calls

SETTINGS = FetchSettings(
    IsolationLevel.READ_UNCOMMITTED,
    FetchLimits(500, 1, 1 << 20, 1 << 20),
    1 << 24,
    True,
    "earliest",
    1.0,
    1.0,
    1.0,
    1.0,
)
BROKER = Node(1, "h", 9092)


class Member:
    """A consumer's parts with ``size`` partitions of half as many topics, and no broker."""

    def __init__(self, size: int) -> None:
        topics: list[str] = [Name(f"orders-{number}") for number in range(size // 2)]
        self.partitions = [TopicPartition(topic, number) for number in (0, 1) for topic in topics]
        partitions = tuple(PartitionDescription(number, 1, 1, (1,), (1,)) for number in (0, 1))
        described = {name: TopicDescription(name, None, False, 0, partitions) for name in topics}
        leaders = Leaders(topics)
        leaders.take(ClusterDescription(0, "c", 1, {1: BROKER}, described), 0)
        client: Any = SimpleNamespace(
            clock=lambda: 0.0,
            backoff=lambda: ExponentialBackoff(0.0, 0.0, Random(1)),
            metrics=None,
            has_ended=False,
        )
        self.fetcher = Fetcher(client, (), leaders, SETTINGS)
        cursor = Cursor()
        self.progress = Progress(cursor, lambda: None)
        source: Any = SimpleNamespace(cursor=cursor, fetcher=self.fetcher)
        link: Any = SimpleNamespace(
            fetch_offsets=self._fetch_offsets, react=lambda _: Reaction.DONE
        )
        settings = AssignmentSettings(
            "earliest", IsolationLevel.READ_UNCOMMITTED, 1.0, 1.0, lambda: False
        )
        commits: Any = None
        stats: Any = None
        self.assignment = Assignment(
            client,
            link,
            source,
            self.progress,
            commits,
            lambda: None,  # type: ignore[arg-type, return-value]
            settings,
            lambda _: None,
            stats,
        )
        self.plan = FetchPlan(self.fetcher.read_ahead, leaders, 300.0)
        self.consumer = Consumer("orders", group_id="g", bootstrap_servers="localhost:1")
        self.consumer._state = "started"
        self.consumer._client = SimpleNamespace(check_usable=lambda: None)  # type: ignore[assignment]
        self.consumer._assignment = self.assignment
        session: Any = SimpleNamespace(wake=lambda: None, clock=lambda: 0.0)

        async def handle(record: ConsumerRecord) -> None: ...

        self.workers = Workers(
            source, self.progress, self.assignment, session, handle, 8, "key", 1 << 30
        )
        self.assignment.handlers = self.workers

    async def _fetch_offsets(self, member: object, wanted: frozenset[TopicPartition]) -> Any:
        return FetchedOffsets(0, dict.fromkeys(wanted, OffsetAndMetadata(5)))

    async def begin(self) -> None:
        await self.assignment.assigned(self.partitions)
        await asyncio.gather(*self.assignment._beginning)

    def plan_all(self) -> None:
        self.plan.update(0.0)
        while self.plan.is_behind:
            self.plan.update(0.0)

    def line_up(self) -> None:
        """A record of each partition waits for a handler."""
        for where in self.partitions:
            batch: Any = Batch(where)
            self.workers._line_up(batch)


class Batch(list[ConsumerRecord]):
    def __init__(self, where: TopicPartition) -> None:
        super().__init__([ConsumerRecord(*where, 5, 0, "CreateTime", b"k", b"v", ())])
        self.topic_partition = where


async def begun(size: int) -> Member:
    member = Member(size)
    await member.begin()
    member.plan_all()
    return member


async def pause(member: Member) -> None:
    member.consumer.pause(*member.partitions)
    assert len(member.consumer.paused) == len(member.partitions)
    member.plan_all()
    member.consumer.resume(*member.partitions)
    member.plan_all()


async def revoke_half(member: Member) -> None:
    await member.assignment.revoked(member.partitions[: len(member.partitions) // 2])


async def lose_all(member: Member) -> None:
    member.assignment.lost()


async def fall_silent(member: Member) -> None:
    member.assignment.silence()
    member.assignment.end_of_silence()


async def seek_each(member: Member) -> None:
    member.line_up()
    for where in member.partitions:
        await member.consumer.seek(where, 7)


async def stop_handlers(member: Member) -> None:
    member.line_up()
    for where in member.partitions:
        assert member.workers.works_on((where,))
        member.workers.drop((where,))
        assert not member.workers.works_on((where,))
    assert not member.workers._lanes


async def fetch_and_look(member: Member) -> None:
    """Rounds of a fetcher in which each partition has been answered once."""
    for where in member.partitions:
        member.fetcher.partitions[where].found_nothing()
        member.plan.update(0.0)
        for _, session in member.plan.sessions:
            turn = session.next_turn()
            session.take(turn, Fetched(0, {}, 7))
        assert member.plan.buffered(1) == 0
        member.fetcher.read_ahead.share(1)
        assert not member.fetcher.read_ahead.is_done
    assert not turn.named


async def begin(member: Member) -> None:
    await member.assignment.revoked(member.partitions)
    await member.begin()
    member.plan_all()


JOBS: list[Callable[[Member], Awaitable[None]]] = [
    pause,
    revoke_half,
    lose_all,
    fall_silent,
    seek_each,
    stop_handlers,
    fetch_and_look,
    begin,
]


async def calls_of(job: Callable[[Member], Awaitable[None]], size: int) -> int:
    member = await begun(size)
    with counted_calls() as calls:
        await job(member)
    return calls.count


@pytest.mark.parametrize("job", JOBS)
async def test_the_cost_grows_as_the_partitions(job: Callable[[Member], Awaitable[None]]) -> None:
    small, large = await calls_of(job, 200), await calls_of(job, 800)
    assert large < 5 * small


@pytest.mark.parametrize("job", [revoke_half, begin])
async def test_other_tasks_have_turns_between_partitions(
    job: Callable[[Member], Awaitable[None]],
) -> None:
    member = await begun(4_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    turns = 0
    await job(member)
    counting.cancel()
    assert turns >= 3


async def test_a_change_of_every_partition_is_looked_at_in_several_rounds() -> None:
    member = await begun(4_000)
    member.plan.look_again()
    rounds = 0
    while True:
        with counted_calls() as calls:
            member.plan.update(0.0)
        assert calls.count < 60_000
        rounds += 1
        if not member.plan.is_behind:
            break
    assert rounds >= 3


async def test_reasons_to_hand_out_nothing_are_independent() -> None:
    member = await begun(2)
    first, second = member.partitions
    member.assignment.hold((first,), Hold.REVOKED)
    member.assignment.pause(member.partitions)
    member.assignment.let_go((first,), Hold.REVOKED)
    member.assignment.let_go((second,), Hold.FULL)
    assert member.assignment.paused == {first, second}
    assert all(state.paused for state in member.fetcher.partitions.values())
    member.assignment.resume(member.partitions)
    assert not any(state.paused for state in member.fetcher.partitions.values())
    assert not member.assignment._holds
