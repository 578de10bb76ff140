"""Where a group has got to, while its coordinator moves, dies, is silent or refuses.

Whatever comes of it, the transaction beside it goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import (
    FatalTransactionError,
    OffsetAndMetadata,
    Producer,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerTimeoutError,
    TopicPartition,
)
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from tests.support.fake_kafka import Answer
from tests.support.fake_kafka.brokers import END, FIND_COORDINATOR, OFFSET_FETCH
from tests.support.inside import engine_of, lifecycle_of

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka

PATIENCE = 60.0
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, GROUP_UNAUTHORIZED = 14, 15, 16, 30
TOPICS = {"orders": 1, "input": 2, "blocked": 1}
INPUT = TopicPartition("input", 0)
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "transactional_id": "me",
}


@asynccontextmanager
async def started(kafka: FakeKafka, **options: Any) -> AsyncIterator[Producer]:
    """A producer that has written an offset in a transaction, and can still do so at the end."""
    settings = {"bootstrap_servers": kafka.bootstrap_servers, **QUICK, **options}
    producer = Producer(**settings)
    await producer.start()
    try:
        await transact(producer, 7)
        yield producer
        if not lifecycle_of(producer).closed:
            async with asyncio.timeout(PATIENCE):
                await transact(producer, 8)
                assert await producer.committed_offsets("readers", [INPUT]) == {
                    INPUT: OffsetAndMetadata(8)
                }
            transactions = engine_of(producer).transactions
            assert transactions is not None
            assert transactions.offsets.next_request() is None
    finally:
        await producer.close(0)


async def transact(producer: Producer, offset: int) -> None:
    async with producer.transaction():
        producer.send("orders", b"v", partition=0)
        await producer.send_offsets_to_transaction({INPUT: offset}, "readers")


async def found(producer: Producer) -> dict[TopicPartition, int]:
    async with asyncio.timeout(PATIENCE):
        offsets = await producer.committed_offsets("readers", [INPUT, TopicPartition("input", 1)])
    return {place: each.offset for place, each in offsets.items()}


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
async def cluster(request: pytest.FixtureRequest, start_kafka: StartKafka) -> FakeKafka:
    """Broker 1 coordinates the transactions, broker 2 the groups."""
    kafka = await start_kafka(2, TOPICS, transaction_version=request.param)
    kafka.group_coordinator = 2
    return kafka


@pytest.mark.parametrize("version", [7, 8])
async def test_it_is_known_between_transactions_and_within(
    start_kafka: StartKafka, version: int
) -> None:
    kafka = await start_kafka(1, TOPICS, {OFFSET_FETCH: (0, version)})
    async with started(kafka) as producer:
        assert await found(producer) == {INPUT: 7}
        async with producer.transaction():
            assert await found(producer) == {INPUT: 7}
        assert await producer.committed_offsets("readers", []) == {}
    assert {each.version for each in kafka.requests(OFFSET_FETCH)} == {version}


@pytest.mark.parametrize(
    "fault",
    [
        *[Answer(code) for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)],
        Answer(cut=True),
        Answer(cut_after_writing=True),
    ],
    ids=["loading", "not available", "not coordinator", "cut", "cut after it was done"],
)
@pytest.mark.parametrize("api", [FIND_COORDINATOR, OFFSET_FETCH])
async def test_what_may_pass_is_asked_again(cluster: FakeKafka, api: int, fault: Answer) -> None:
    async with started(cluster) as producer, producer.transaction():
        cluster.script[api] = deque([fault] * 3)
        sent = producer.send("orders", b"v")
        assert await found(producer) == {INPUT: 7}
        assert not cluster.script[api]
    assert (await sent).offset == 2, "after a record and the marker of its transaction"


async def test_a_coordinator_that_moved_is_followed(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        assert await found(producer) == {INPUT: 7}
        cluster.group_coordinator = 1
        assert await found(producer) == {INPUT: 7}
        assert [each.broker for each in cluster.requests(OFFSET_FETCH)] == [2, 2, 1]


async def test_a_coordinator_that_died_is_replaced(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        assert await found(producer) == {INPUT: 7}
        await cluster.servers[2].stop()
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(FIND_COORDINATOR, len(cluster.requests(FIND_COORDINATOR)) + 1)
        cluster.group_coordinator = 1
        assert await waiting == {INPUT: 7}


@pytest.mark.parametrize("api", [FIND_COORDINATOR, OFFSET_FETCH])
async def test_what_is_refused_fails_the_call_and_nothing_else(
    cluster: FakeKafka, api: int
) -> None:
    async with started(cluster) as producer, producer.transaction():
        sent = producer.send("orders", b"v")
        cluster.script[api] = deque([Answer(GROUP_UNAUTHORIZED)])
        with pytest.raises(GroupAuthorizationFailedError, match=r"'me'.*GROUP_AUTHORIZATION"):
            await found(producer)
        assert await found(producer) == {INPUT: 7}
    assert (await sent).offset == 2, "after a record and the marker of its transaction"


async def test_brokers_that_do_not_know_open_transactions(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(1, TOPICS, {OFFSET_FETCH: (0, 6)})
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, **QUICK)
    async with producer, producer.transaction():
        with pytest.raises(UnsupportedVersionError, match="too old to exclude offsets"):
            await found(producer)
        assert (await producer.send("orders", b"v")).offset == 0


async def test_what_this_transaction_would_change_is_known_when_it_has_ended(
    cluster: FakeKafka,
) -> None:
    async with started(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({INPUT: 9}, "readers")
        with pytest.raises(ProducerTimeoutError, match=r"2 s: .*UNSTABLE_OFFSET_COMMIT.*again"):
            await producer.committed_offsets("readers", [INPUT], timeout=2)
        waiting = asyncio.create_task(found(producer))
        await asyncio.sleep(0.02)
        sent = producer.send("orders", b"v")
        assert not waiting.done()
        async with asyncio.timeout(PATIENCE):
            await producer.commit_transaction()
        assert await waiting == {INPUT: 9}
        assert (await sent).offset == 2, "after a record and the marker of its transaction"


async def test_a_silent_coordinator_of_a_group_holds_up_no_transaction(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        cluster.mute.add(OFFSET_FETCH)
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(OFFSET_FETCH)
        async with asyncio.timeout(PATIENCE / 4), producer.transaction():
            await producer.send("orders", b"v")
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        await cluster.servers[2].cut()
        cluster.mute.clear()


async def test_one_group_holds_up_no_other(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        other = Producer(
            bootstrap_servers=cluster.bootstrap_servers, **QUICK | {"transactional_id": "other"}
        )
        async with other:
            await other.begin_transaction()
            await other.send_offsets_to_transaction({("blocked", 0): 1}, "blocked")
            blocked = TopicPartition("blocked", 0)
            waiting = asyncio.create_task(producer.committed_offsets("blocked", [blocked]))
            await cluster.until_received(OFFSET_FETCH, 2)
            assert await found(producer) == {INPUT: 7}
            assert not waiting.done()
            await other.commit_transaction()
            assert (await waiting)[blocked].offset == 1


@pytest.mark.parametrize("api", [FIND_COORDINATOR, OFFSET_FETCH])
async def test_a_wait_that_is_over_is_asked_for_no_more(cluster: FakeKafka, api: int) -> None:
    async with started(cluster) as producer:
        cluster.script[api] = deque([Answer(LOADING)] * 1_000_000)
        with pytest.raises(ProducerTimeoutError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await producer.committed_offsets("readers", [INPUT], timeout=2)
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(api, len(cluster.requests(api)) + 2)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await asyncio.sleep(0.1)
        before = len(cluster.requests(api))
        await asyncio.sleep(0.1)
        assert len(cluster.requests(api)) == before
        cluster.script.clear()


async def test_close_does_not_wait_for_it_and_it_is_told(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        cluster.mute.add(OFFSET_FETCH)
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(OFFSET_FETCH)
        async with asyncio.timeout(PATIENCE / 4):
            assert await producer.close() == 0
        with pytest.raises(ProducerClosedError, match=r"closed while committed_offsets\(\) waited"):
            await waiting
        with pytest.raises(ProducerClosedError):
            await found(producer)


async def test_who_waits_in_a_producer_that_breaks_is_told(
    cluster: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(cluster) as producer:
        cluster.mute.add(OFFSET_FETCH)
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(OFFSET_FETCH)

        def explode(*_: Any) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(MetadataRefresher, "step", explode)
        await cluster.servers[2].cut()
        with pytest.raises(ProducerBrokenError, match="a bug"):
            await asyncio.wait_for(waiting, PATIENCE)
        monkeypatch.undo()
        await producer.close()


async def test_a_producer_that_was_fenced_is_told_so(cluster: FakeKafka) -> None:
    async with started(cluster) as producer:
        cluster.mute.add(OFFSET_FETCH)
        waiting = asyncio.create_task(found(producer))
        await cluster.until_received(OFFSET_FETCH)
        cluster.script[END] = deque([Answer(90)])
        with pytest.raises(ProducerFencedError):
            async with producer.transaction():
                await producer.send("orders", b"v")
        with pytest.raises(FatalTransactionError, match="can't fetch offsets"):
            await asyncio.wait_for(waiting, PATIENCE)
        with pytest.raises(ProducerFencedError, match="can't fetch offsets"):
            await found(producer)
        await producer.close()


async def test_a_group_that_is_refused_by_its_own_answer(cluster: FakeKafka) -> None:
    """A code that nobody expects, and one that no table knows."""
    async with started(cluster) as producer:
        for code in (24, 42, -1, 69):
            cluster.script[OFFSET_FETCH] = deque([Answer(code)])
            with pytest.raises(KafkaError) as raised:
                await found(producer)
            assert raised.value.code == code
