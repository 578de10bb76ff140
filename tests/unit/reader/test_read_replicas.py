"""The followers that a reader was sent to (KIP-392): leases, new leaders, errors."""

from __future__ import annotations

import pytest

from aioproducer.errors.broker import ErrorCode
from aioproducer.reader.fetch_plan import ReadReplicas
from aioproducer.reader.fetcher import Fetcher
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.requests import EpochEnd
from tests.support.waiting import until
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
LEASE = 10.0


def asked(client: ScriptedClient, partition: int = 0) -> list[int]:
    """The brokers that were asked for a partition, in their order."""
    return [
        broker
        for broker, request in client.fetches
        if any(each.where.partition == partition for each in request.partitions)
    ]


def with_follower() -> ScriptedClient:
    """Broker 1 leads partition 0, and sends clients to broker 2."""
    client = ScriptedClient()
    client.followers = {0: 2}
    client.logs[0] = written(b"a", b"b")
    return client


# --- the preferences ----------------------------------------------------------------------------


def test_a_preference_holds_for_its_lease() -> None:
    replicas = ReadReplicas(LEASE)
    assert replicas.next_end is None
    replicas.prefer(FIRST, 2, 5, 0.0)
    replicas.prefer(SECOND, 3, 5, 1.0)
    replicas.prefer(FIRST, 3, 5, 2.0)
    assert replicas.next_end == 11.0
    assert list(replicas.expire(10.9)) == []
    assert list(replicas.expire(11.0)) == [SECOND]
    assert (replicas.broker(FIRST, 5), replicas.broker(SECOND, 5)) == (3, None)
    assert list(replicas.expire(20.0)) == [FIRST]


def test_a_new_leader_has_named_nobody() -> None:
    replicas = ReadReplicas(LEASE)
    replicas.prefer(FIRST, 2, 5, 0.0)
    assert replicas.broker(FIRST, 6) is None
    assert replicas.broker(FIRST, 5) is None
    assert not replicas.forget(FIRST)


def test_who_is_forgotten_was_preferred() -> None:
    replicas = ReadReplicas(LEASE)
    replicas.prefer(FIRST, 2, 5, 0.0)
    assert replicas.forget(FIRST)
    assert replicas.broker(FIRST, 5) is None


# --- a fetcher ----------------------------------------------------------------------------------

both_ways = pytest.mark.usefixtures("with_and_without_sessions")


@both_ways
async def test_records_come_from_the_follower_that_the_leader_names() -> None:
    client = with_follower()
    async with fetching(client) as fetcher:
        assert await values(fetcher, 2) == [(0, 0), (0, 1)]
        append(client, 0, b"c")
        assert await values(fetcher, 1) == [(0, 2)]
        brokers = asked(client)
        assert (brokers[0], set(brokers[1:])) == (1, {2})
        assert fetcher.partitions[FIRST].high_watermark == 3
        assert {request.rack for _, request in client.fetches} == {"south"}


@both_ways
async def test_the_leader_is_asked_again_when_the_lease_is_over() -> None:
    client = with_follower()
    async with fetching(client, max_age=0.1) as fetcher:
        assert len(await values(fetcher, 2)) == 2
        await until(lambda: asked(client).count(1) >= 3, "the leader is asked again and again")


@both_ways
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
async def test_an_error_of_the_follower_leads_back_to_the_leader(code: ErrorCode) -> None:
    client = with_follower()
    async with fetching(client, reset="earliest") as fetcher:
        assert len(await values(fetcher, 2)) == 2
        client.errors[2, 0] = code
        client.changed.set()
        await until(lambda: asked(client).count(1) >= 2, "the leader is asked")
        client.followers.clear()
        append(client, 0, b"c")
        assert await values(fetcher, 1) == [(0, 2)], "the position was not reset"


async def test_a_follower_that_fails_each_time_is_asked_with_pauses() -> None:
    client = with_follower()
    client.errors[2, 0] = ErrorCode.OFFSET_OUT_OF_RANGE
    async with fetching(client) as fetcher:
        state = fetcher.partitions[FIRST]
        await until(lambda: asked(client).count(2) >= 3, "the follower is tried again")
        await until(lambda: state.not_before > client.clock(), "there are pauses")


@pytest.mark.parametrize("how", ["unknown", "down"])
async def test_a_follower_that_is_not_there_is_not_asked(how: str) -> None:
    client = with_follower()
    if how == "unknown":
        client.followers[0] = 9
    else:
        client.offline[0] = (2,)
    async with fetching(client) as fetcher:
        await until(lambda: asked(client).count(1) >= 3, "the leader is asked again")
        assert 2 not in asked(client)
        client.followers.clear()
        assert len(await values(fetcher, 2)) == 2


async def test_a_follower_that_goes_down_is_left_with_the_next_metadata() -> None:
    client = with_follower()
    async with fetching(client, max_age=0.2) as fetcher:
        assert len(await values(fetcher, 2)) == 2
        client.offline[0] = (2,)
        client.followers.clear()
        await until(lambda: asked(client)[-1] == 1, "the leader is asked")
        append(client, 0, b"c")
        assert await values(fetcher, 1) == [(0, 2)]


async def test_a_new_leader_is_asked_first() -> None:
    client = with_follower()
    client.leaders[1] = (1, 5)
    async with fetching(client) as fetcher:
        assert len(await values(fetcher, 2)) == 2
        client.followers = {0: 1}
        before = len(client.fetches)
        await elect(client, 0, 2, 5)
        client.leaders[0] = (2, 6)
        client.errors[2, 0] = ErrorCode.FENCED_LEADER_EPOCH
        client.changed.set()
        client.ends.append(EpochEnd(0, 5, 2))
        await until(lambda: len(client.fetches) > before + 1, "the error has come")
        del client.errors[2, 0]
        append(client, 0, b"c")
        assert await values(fetcher, 1) == [(0, 2)]
        assert client.ends == [], "the new leader was asked for the end of the epoch"


async def test_a_broker_that_names_itself_is_read_from() -> None:
    client = with_follower()
    client.followers = {0: 1}
    original = client._answer

    def answer(asked: object, node: object) -> object:
        client.followers.clear()
        found = original(asked, node)  # type: ignore[arg-type]
        client.followers[0] = 1
        return found._replace(preferred_read_replica=1)

    client._answer = answer  # type: ignore[method-assign, assignment]
    async with fetching(client) as fetcher:
        assert len(await values(fetcher, 2)) == 2


async def test_a_released_partition_begins_at_its_leader() -> None:
    client = with_follower()
    async with fetching(client) as fetcher:
        assert len(await values(fetcher, 2)) == 2
        await release_and_add(fetcher)
        await until(lambda: 1 in asked(client)[1:], "the leader is asked")


async def release_and_add(fetcher: Fetcher) -> None:
    fetcher.release(FIRST)
    await until(lambda: FIRST not in fetcher._plan.sources, "the fetcher has seen it")
    fetcher.add([PartitionState(FIRST, 2, None)])
