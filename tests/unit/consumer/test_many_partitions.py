"""What a member does with its partitions costs as much for each, however many it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from aioproducer.consumer import assignment
from aioproducer.consumer.assigned_partition import AssignedPartition, Hold
from aioproducer.consumer.assignment import Assignment, AssignmentSettings
from aioproducer.consumer.commits import Commits
from aioproducer.consumer.consumer import Consumer
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.metrics import ConsumerStats
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.transactions import Transactions
from aioproducer.consumer.workers import Workers
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import leaders_of, lookup_offsets
from aioproducer.engine.client.requests import (
    LATEST,
    ClusterDescription,
    FoundOffset,
    IsolationLevel,
    ListOffsetsRequest,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.engine.groups.requests import FetchedOffsets, Membership, OffsetCommit, Reaction
from aioproducer.errors import KafkaError, ProducerTimeoutError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.model import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    TopicPartition,
)
from aioproducer.reader.fetch_plan import FetchPlan
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import Cursor, Item
from aioproducer.reader.positions import _partitions, assigned
from aioproducer.reader.requests import Fetched, FetchLimits
from tests.support.operations import Name, counted_calls
from tests.support.responses import at_once

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
        at_once(leaders.taking(ClusterDescription(0, "c", 1, {1: BROKER}, described), 0))
        client: Any = SimpleNamespace(
            clock=lambda: 0.0,
            backoff=lambda: ExponentialBackoff(0.0, 0.0, Random(1)),
            metrics=None,
            has_ended=False,
        )
        self.fetcher = Fetcher(client, (), leaders, SETTINGS)
        cursor = Cursor()
        self.progress = Progress(cursor)
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
            SimpleNamespace(has=lambda _: True),
            settings,
            lambda _: None,
            stats,
        )
        self.plan = FetchPlan(self.fetcher.read_ahead, leaders, 300.0)
        self.consumer = Consumer("orders", group_id="g", bootstrap_servers="localhost:1")
        self.consumer._state = "started"
        self.consumer._client = SimpleNamespace(check_usable=lambda: None)  # type: ignore[assignment]
        self.consumer._assignment = self.assignment
        session: Any = SimpleNamespace(wake=lambda: None, clock=lambda: 0.0, real_clock=lambda: 0.0)

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
            cursor = Cursor()
            cursor.open(self.fetcher.partitions[where], Item(6), batch)
            self.workers._begin_batch(cursor)


class Batch(list[ConsumerRecord]):
    unpacked_size = 70

    def __init__(self, where: TopicPartition) -> None:
        super().__init__([ConsumerRecord(*where, 5, 0, "CreateTime", b"k", b"v", ())])


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
    assert not member.workers._lines


async def fetch_and_look(member: Member) -> None:
    """Rounds of a fetcher in which each partition has been answered once."""
    for where in member.partitions:
        member.fetcher.partitions[where].found_nothing()
        member.plan.update(0.0)
        for session in member.plan.sessions.values():
            turn = session.next_turn()
            session.take(turn, Fetched(0, {}, 7))
        assert member.plan.sessions[1].buffered == 0
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


async def turns_during(job: Awaitable[object]) -> int:
    """The turns of another task until ``job`` is done."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    turns = 0
    await job
    counting.cancel()
    return turns


async def look_for_moves(member: Member) -> None:
    for where in member.partitions:
        member.fetcher.partitions[where].advance(9)
    moved = await in_turns(member.progress.moved())
    assert moved == dict.fromkeys(member.partitions, OffsetAndMetadata(9))


@pytest.mark.parametrize("job", [revoke_half, begin, look_for_moves])
async def test_other_tasks_have_turns_between_partitions(
    job: Callable[[Member], Awaitable[None]],
) -> None:
    assert await turns_during(job(await begun(4_000))) >= 3


async def test_partitions_that_go_meanwhile_have_not_moved() -> None:
    member = await begun(2_000)
    for where in member.partitions:
        member.fetcher.partitions[where].advance(9)
    first, last = member.partitions[0], member.partitions[-1]
    steps = member.progress.moved()
    next(steps)
    member.assignment._release([first, last])
    assert (await in_turns(steps)).keys() == {*member.partitions} - {first, last}


class Transacting:
    """A producer that notes how its transactions end."""

    def __init__(self) -> None:
        self.ends: list[object] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self.ends.append("aborted")
            raise
        self.ends.append("committed")

    async def send_offsets_to_transaction(self, offsets: object, group: object) -> None:
        self.ends.append(offsets)


@pytest.mark.parametrize("how", ["lost", "sought", "kept"])
async def test_results_are_committed_only_with_the_offsets_of_their_records(how: str) -> None:
    """A partition may go in a turn between the looks at a thousand others."""
    member = await begun(2_000)
    member.assignment.handlers = None
    where = member.partitions[-1]
    member.fetcher.partitions[where].advance(9)

    async def lists() -> AsyncIterator[list[ConsumerRecord]]:
        yield [ConsumerRecord(*where, 8, 0, "CreateTime", b"k", b"v", ())]

    def leave() -> None:
        if how == "lost":
            member.assignment._release([where])
        elif how == "sought":
            member.assignment.seek(where, 7)

    producer: Any = Transacting()
    given: Any = lists()
    group = ConsumerGroupMetadata("g")
    transactions = Transactions(
        given,
        member.progress,
        producer,
        lambda: group,
        member.assignment,
        lambda: asyncio.sleep(0),
    )
    async with await anext(transactions):
        asyncio.get_running_loop().call_soon(leave)
    kept = [{where: OffsetAndMetadata(9)}, "committed"]
    assert producer.ends == (kept if how == "kept" else ["aborted"])


async def test_a_commit_looks_at_partitions_in_turns() -> None:
    """Also if there is nothing to commit, once a second."""
    member, link, commits = await committing(4_000)
    await commits.commit(member.partitions, 5.0)
    link.asked.clear()
    assert await turns_during(commits.commit(member.partitions, 5.0)) >= 3
    assert link.asked == []


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
    assert not any(each.holds for each in member.progress.partitions.values())


# --- requests about many partitions -------------------------------------------------------------


class Link(CoordinatorLink):
    """A coordinator that takes and tells everything. ``on_request`` is called before an answer."""

    def __init__(self) -> None:
        self.group_id = "g"
        self.client = SimpleNamespace(  # type: ignore[assignment]
            clock=lambda: 0.0, backoff=lambda: ExponentialBackoff(0.0, 0.0, Random(1))
        )
        self.asked: list[list[TopicPartition]] = []
        self.on_request: Callable[[], None] = lambda: None

    async def ask(self, request: Any, timeout: float | None = None) -> Any:
        commits = isinstance(request, OffsetCommit)
        self.asked.append([*(request.offsets if commits else request.partitions)])
        self.on_request()
        if commits:
            return dict.fromkeys(request.offsets, 0)
        return FetchedOffsets(0, dict.fromkeys(request.partitions, OffsetAndMetadata(7)))


async def committing(size: int) -> tuple[Member, Link, Commits]:
    member, link = await begun(size), Link()
    window = {"num_samples": 2, "sample_window": 30.0, "now": 0.0}
    commits = Commits(
        link,
        member.progress,
        lambda: Membership("g", "m", 3),
        lambda _: True,
        lambda _: None,
        lambda _: None,
        ConsumerStats(**window),  # type: ignore[arg-type]
    )
    for where in member.partitions:
        member.fetcher.partitions[where].advance(9)
    return member, link, commits


async def test_offsets_are_committed_and_fetched_in_portions() -> None:
    member, link, commits = await committing(2_500)
    await commits.commit(member.partitions, 5.0)
    assert [*map(len, link.asked)] == [1_000, 1_000, 500]
    assert {where for asked in link.asked for where in asked} == {*member.partitions}
    assert not member.progress.to_commit(member.partitions)
    link.asked.clear()
    found = await link.fetch_offsets(Membership("g"), frozenset(member.partitions))
    assert [*map(len, link.asked)] == [1_000, 1_000, 500]
    assert found.offsets == dict.fromkeys(member.partitions, OffsetAndMetadata(7))


async def test_what_is_lost_meanwhile_is_committed_no_longer() -> None:
    member, link, commits = await committing(2_000)
    gone = member.partitions[-1]
    link.on_request = lambda: member.assignment._release([gone])
    await commits.commit(member.partitions, 5.0)
    assert [*map(len, link.asked)] == [1_000, 999]
    link.on_request = lambda: member.assignment._release(member.partitions[-2:])
    offsets = {where: OffsetAndMetadata(10) for where in member.partitions[:-1]}
    with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
        await commits.commit_offsets(offsets, 5.0)
    assert [*map(len, link.asked[2:])] == [1_000, 998]


async def test_ends_are_looked_up_in_portions_and_leaders_found_once_for_a_topic() -> None:
    asked: list[int] = []

    class Client:
        may_pass = staticmethod(ClusterClient.may_pass)

        def __init__(self, size: int) -> None:
            partitions = tuple(
                PartitionDescription(number, 1, 1, (1,), (1,)) for number in range(size)
            )
            topic = TopicDescription("orders", None, False, 0, partitions)
            self.description = ClusterDescription(0, "c", 1, {1: BROKER}, {"orders": topic})

        async def describe(self, topics: object) -> ClusterDescription:
            return self.description

        async def retry(self, attempt: Callable[[], Awaitable[None]], **_: object) -> None:
            await attempt()

        async def request(self, request: ListOffsetsRequest, node: Node) -> Any:
            asked.append(len(request.partitions))
            return {where: FoundOffset(0, 3, -1, -1) for where in request.partitions}

    calls = []
    for size in (625, 2_500):
        client: Any = Client(size)
        wanted = {TopicPartition("orders", number): LATEST for number in range(size)}
        with counted_calls() as counted:
            found = await lookup_offsets(client, wanted, timeout=1.0)
            leaders_of(wanted, client.description)
        assert list(found) == list(wanted)
        calls.append(counted.count)
    assert asked == [625, 1_000, 1_000, 500]
    assert calls[1] < 5 * calls[0]


@pytest.mark.parametrize(("size", "lookups"), [(4, [4, 1, 1, 1, 1]), (400, [400, 100, 100, 200])])
async def test_a_leader_that_is_slow_holds_up_its_own_partitions(
    monkeypatch: pytest.MonkeyPatch, size: int, lookups: list[int]
) -> None:
    """Few partitions are looked up one by one, and many by their leader: each describes topics."""
    asked: list[int] = []

    async def find(client: object, wanted: dict[TopicPartition, object], *_: object) -> Any:
        asked.append(len(wanted))
        if len(asked) == 1:
            raise ProducerTimeoutError("slow")
        return dict.fromkeys(wanted, 3)

    async def describe(topics: object) -> ClusterDescription:
        partitions = tuple(
            PartitionDescription(number, number % 4 if number % 4 < 2 else None, 1, (), ())
            for number in range(size)
        )
        topic = TopicDescription("wide", None, False, 0, partitions)
        return ClusterDescription(0, "c", 1, {}, {"wide": topic})

    monkeypatch.setattr(assignment, "find_offsets", find)
    member = Member(2)
    member.assignment._client.describe = describe  # type: ignore[method-assign, assignment]
    wide = [TopicPartition("wide", number) for number in range(size)]
    member.assignment._owned = {each: AssignedPartition(each) for each in wide}
    await member.assignment._reset(dict.fromkeys(wide, "beginning"), member.assignment._owned)
    assert asked == lookups
    assert set(member.progress.partitions) == {*wide}


def test_partitions_of_a_reader_are_looked_for_once_in_each_topic() -> None:
    calls = []
    for size in (500, 2_000):
        partitions = tuple(PartitionDescription(number, 1, 1, (), ()) for number in range(size))
        topic = TopicDescription("orders", None, False, 0, partitions)
        cluster = ClusterDescription(0, "c", 1, {}, {"orders": topic})
        wanted = assigned([TopicPartition("orders", number) for number in range(size)], 7)
        steps = 0

        class Number(int):
            """Counts comparisons."""

            def __eq__(self, other: object) -> bool:
                nonlocal steps
                steps += 1
                return super().__eq__(other)

            __hash__ = int.__hash__

        counted = [each._replace(partition=Number(each.partition or 0)) for each in wanted]
        assert len(_partitions(cluster, counted)) == size
        calls.append(steps)
    assert calls[1] < 5 * calls[0]
