"""A fetcher in sessions with its brokers, and the end of the sessions (KIP-227)."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from aioproducer.consumer import Consumer
from aioproducer.errors import BrokerConnectionError, ClientClosedError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition
from aioproducer.reader import Reader
from aioproducer.reader.fetch_plan import FetchPlan
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.requests import Fetched, FetchRequest
from aioproducer.testing import SimulatedWorld, simulate
from tests.support.simulated_world import consumer, model_of
from tests.support.waiting import until
from tests.unit.reader.broker_sessions import Found
from tests.unit.reader.test_fetcher import (
    PLACES,
    ScriptedClient,
    append,
    elect,
    fetching,
    values,
    written,
)

FIRST, SECOND = PLACES
FULL = 0


def one_broker() -> ScriptedClient:
    """The broker leads both partitions."""
    client = ScriptedClient()
    client.leaders = {0: (1, 5), 1: (1, 5)}
    return client


async def next_requests(client: ScriptedClient, count: int = 1) -> list[FetchRequest]:
    """The requests that are sent from now on."""
    before = len(client.sent)
    await until(lambda: len(client.sent) >= before + count, "requests are sent")
    return [request for _, request in client.sent[before : before + count]]


def named(request: FetchRequest) -> list[tuple[int, int]]:
    return [(each.where.partition, each.offset) for each in request.partitions]


async def test_topics_without_ids_are_named_until_the_cluster_gives_them_ids() -> None:
    client = one_broker()
    client.topic_id = None
    client.logs[0] = written(b"a")
    async with fetching(client) as fetcher:
        assert await values(fetcher, 1) == [(0, 0)]
        assert not any(request.has_ids for _, request in client.sent)
        client.topic_id = UUID(int=1)
        await elect(client, 1, 1, 6)
        await until(lambda: client.sent[-1][1].has_ids, "the id is known")
        append(client, 0, b"b")
        assert await values(fetcher, 1) == [(0, 1)]
    number = next(at for at, (_, each) in enumerate(client.sent) if each.has_ids)
    assert client.sent[number][1].session.epoch == FULL
    assert all(request.has_ids for _, request in client.sent[number:])


async def test_requests_about_idle_partitions_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    client = one_broker()
    looked_at = 0
    original = FetchPlan._look_at

    def look_at(self: FetchPlan, where: object, now: float) -> None:
        nonlocal looked_at
        looked_at += 1
        original(self, where, now)  # type: ignore[arg-type]

    async with fetching(client):
        await next_requests(client, 2)
        monkeypatch.setattr(FetchPlan, "_look_at", look_at)
        idle = await next_requests(client, 3)
        assert [(named(each), each.forgotten) for each in idle] == [([], ())] * 3
        assert looked_at == 0
    first = client.sent[0][1]
    assert (first.session.epoch, named(first)) == (FULL, [(0, 0), (1, 0)])


async def test_only_partitions_with_records_are_named_again() -> None:
    client = one_broker()
    async with fetching(client) as fetcher:
        await next_requests(client, 2)
        append(client, 1, b"a", b"b")
        assert await values(fetcher, 2) == [(1, 0), (1, 1)]
        await next_requests(client, 2)
        assert [named(each) for _, each in client.sent if named(each)] == [
            [(0, 0), (1, 0)],
            [(1, 2)],
        ]


@pytest.mark.parametrize("how", ["evicted", "another epoch", "lost request"])
async def test_a_session_that_is_over_costs_no_record_and_no_pause(how: str) -> None:
    client = one_broker()
    async with fetching(client) as fetcher:
        await next_requests(client, 2)
        sessions = client.sessions[1].sessions
        before = len(client.sent)
        if how == "evicted":
            sessions.clear()
        elif how == "another epoch":
            for session in sessions.values():
                session.epoch += 1
        else:
            fetch, client.fetch = client.fetch, failing  # type: ignore[method-assign]
            states = fetcher.partitions.values()
            await until(lambda: all(state.failures for state in states), "the request failed")
            assert len({state.not_before for state in states}) == 1  # one request asks for both
            client.fetch = fetch  # type: ignore[method-assign]

        def full() -> list[FetchRequest]:
            new = client.sent[before:]
            return [request for _, request in new if request.session.epoch == FULL]

        await until(lambda: bool(full()), "a full fetch is sent")
        assert named(full()[0]) == [(0, 0), (1, 0)]
        append(client, 0, b"a")
        assert await values(fetcher, 1) == [(0, 0)]
        if how != "lost request":
            assert not any(state.failures for state in fetcher.partitions.values())


async def failing(request: FetchRequest, node: Node) -> Found:
    await asyncio.sleep(0)
    raise BrokerConnectionError("lost")


async def test_an_error_of_the_whole_fetch_is_asked_again_after_a_pause() -> None:
    client = one_broker()
    async with fetching(client) as fetcher:
        await next_requests(client, 2)
        request = client.request

        async def refused(asked: object, node: Node, *_: float) -> Fetched:
            return Fetched(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})

        client.request = refused  # type: ignore[method-assign, assignment]
        await until(lambda: bool(fetcher.partitions[FIRST].failures), "the fetch was refused")
        client.request = request  # type: ignore[method-assign]
        append(client, 0, b"a")
        assert await values(fetcher, 1) == [(0, 0)]


async def test_a_paused_partition_is_forgotten() -> None:
    client = one_broker()
    async with fetching(client) as fetcher:
        await next_requests(client, 2)
        fetcher.pause(FIRST)
        requests = await next_requests(client, 2)
        forgotten = [each.where for request in requests for each in request.forgotten]
        assert forgotten == [FIRST]
        append(client, 0, b"a")
        append(client, 1, b"b")
        assert await values(fetcher, 1) == [(1, 0)]
        fetcher.resume(FIRST)
        assert await values(fetcher, 1) == [(0, 0)]


async def test_a_partition_that_moves_is_forgotten_by_its_old_leader() -> None:
    client = one_broker()
    async with fetching(client) as fetcher:
        await next_requests(client, 2)
        client.leaders[0] = (2, 6)
        append(client, 0, b"a")
        assert await values(fetcher, 1) == [(0, 0)]
        await until(
            lambda: any(each.forgotten for broker, each in client.sent if broker == 1),
            "the old leader forgets it",
        )
        [session] = client.sessions[1].sessions.values()
        assert list(session.partitions) == [SECOND]


async def test_who_comes_back_learns_the_ends_that_a_session_does_not_repeat() -> None:
    client = one_broker()
    client.logs[0] = written(b"a", b"b")
    async with fetching(client) as fetcher:
        assert len(await values(fetcher, 2)) == 2
        await next_requests(client, 2)
        fetcher.release(FIRST)
        fetcher.add([PartitionState(FIRST, 2, None)])
        await until(lambda: fetcher.partitions[FIRST].high_watermark == 2, "the end is known")


async def test_silence_about_a_position_beyond_the_end_means_that_the_log_has_it() -> None:
    """A read up to an end would wait for ever."""
    client = one_broker()
    client.logs = {0: written(b"a", b"b"), 1: []}
    async with fetching(client, end=2) as fetcher:
        fetcher.seek(SECOND, 2)
        assert await values(fetcher, 2) == [(0, 0), (0, 1)]
        assert await fetcher.next_item() is None
        fetcher.seek(FIRST, 1)
        assert await values(fetcher, 1) == [(0, 1)]
        fetcher.pause(SECOND)
        fetcher.seek(FIRST, 2, in_log=False)
        fetcher.seek(SECOND, 2, in_log=False)
        fetcher.seek(FIRST, 2, in_log=False)
        fetcher.resume(SECOND)
        assert await fetcher.next_item() is None


async def test_silence_of_a_throttled_broker_means_nothing() -> None:
    client = one_broker()
    async with fetching(client, end=2) as fetcher:
        await next_requests(client, 2)
        request = client.request
        throttled = 0

        async def throttle(asked: FetchRequest, node: Node, *_: float) -> Fetched:
            nonlocal throttled
            found: Fetched = await request(asked, node)
            if throttled == 3 or not asked.partitions:
                return found
            throttled += 1
            number = 0 if asked.session.epoch == FULL else found.session_id
            return Fetched(0, {}, number, is_withheld=True)

        client.request = throttle  # type: ignore[method-assign, assignment]
        client.first[0] = 3
        fetcher.seek(FIRST, 2, in_log=False)
        fetcher.seek(SECOND, 2)
        with pytest.raises(Exception, match="the log has no offset 2"):
            await fetcher.next_item()
        assert throttled == 3


BROKERS = 3
each_kind = pytest.mark.parametrize("kind", ["reader", "consumer"])


def live(life: Any) -> None:
    simulate(life, topics={"orders": 6}, brokers=BROKERS)


def make(world: SimulatedWorld, kind: str, **options: Any) -> Reader | Consumer:
    if kind == "consumer":
        return consumer(world, **options)
    servers = world.cluster.bootstrap_servers
    return Reader("orders", start="end", bootstrap_servers=servers, **options)


def sessions(world: SimulatedWorld) -> list[int]:
    """The brokers that keep a session."""
    found = model_of(world).cluster.fetch_sessions
    return [broker for broker, known in found.items() if known._sessions]


async def read(reader: Reader | Consumer) -> None:
    async for _ in reader:
        pass


@each_kind
def test_no_broker_keeps_a_session(kind: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        async with make(world, kind) as reader:
            reading = asyncio.create_task(read(reader))
            await asyncio.sleep(10)
            assert len(sessions(world)) == BROKERS
            began = world.now
        assert world.now - began < 1
        assert not sessions(world)
        with pytest.raises(ClientClosedError, match="is closed; make a new one"):
            await reading

    live(life)


@each_kind
def test_a_session_that_begins_at_the_end_is_ended(kind: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        begun = set()
        for number in range(30):
            reader = make(world, kind, client_id=f"r-{number}")
            await reader.start()
            await asyncio.sleep(number / 30 + (0 if kind == "reader" else 3))
            begun.add(len(sessions(world)))
            await reader.close()
            assert not sessions(world), number
        assert begun >= {0, BROKERS}

    live(life)


@each_kind
@pytest.mark.parametrize("fault", ["stall", "crash"])
def test_a_broker_that_is_silent_or_dead_holds_nothing_up(kind: str, fault: str) -> None:
    async def life(world: SimulatedWorld) -> None:
        coordinator = model_of(world).coordinators.groups.partition_of("g").leader
        leader = next(
            each
            for number in range(6)
            if (each := world.cluster.leader("orders", number)) not in (None, coordinator)
        )
        assert leader is not None
        reader = make(world, kind)
        await reader.start()
        await asyncio.sleep(10)
        if fault == "stall":
            world.cluster.stall(leader)
        else:
            world.cluster.crash(leader)
        began = world.now
        await reader.close()
        assert world.now - began < (1.5 if fault == "stall" else 1)
        assert sessions(world) == ([leader] if fault == "stall" else [])

    live(life)


def test_a_close_that_is_cancelled_closes() -> None:
    async def life(world: SimulatedWorld) -> None:
        reader = make(world, "reader")
        await reader.start()
        await asyncio.sleep(10)
        for broker in range(1, BROKERS + 1):
            world.cluster.stall(broker)
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0.5)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(ClientClosedError):
            await reader.seek(TopicPartition("orders", 0), 0)

    live(life)
