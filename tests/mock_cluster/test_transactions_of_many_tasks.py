"""One transactional producer in the hands of several tasks: each learns what became of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.errors import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    ConfigError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidRecordError,
    ProducerClosedError,
)
from aioproducer.model import ConsumerGroupMetadata, OffsetAndMetadata, TransactionHandle
from aioproducer.testing.mock_cluster import MockCluster

PRODUCE, END_TXN = 0, 26
INVALID_RECORD = 87


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 1)
    return mock_cluster


def made(cluster: MockCluster) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="pay-7")


async def started(cluster: MockCluster) -> Producer:
    producer = made(cluster)
    await producer.start()
    return producer


async def one_by_one(first: asyncio.Event, rest: asyncio.Event) -> AsyncIterator[bytes]:
    yield b"1"
    first.set()
    await rest.wait()
    yield b"2"


def ends(cluster: MockCluster) -> int:
    return sum(request.api_key == END_TXN for request in cluster.requests())


async def test_a_block_in_which_the_producer_is_closed_has_not_committed(
    cluster: MockCluster,
) -> None:
    producer = await started(cluster)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def in_block() -> None:
        async with producer.transaction():
            await producer.send("orders", b"v")
            inside.set()
            await go_on.wait()

    task = asyncio.create_task(in_block())
    await inside.wait()
    cluster.set_broker_rtt(1, 300)  # close() still waits for the abort when the block ends
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(ProducerClosedError):
        await task
    await closing


async def test_a_failed_transaction_is_its_own_tasks_to_abort(cluster: MockCluster) -> None:
    producer = await started(cluster)
    failed, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with producer.transaction():
            await producer.send("orders", b"1")
            cluster.push_request_errors(PRODUCE, INVALID_RECORD)
            with pytest.raises(InvalidRecordError):
                await producer.send("orders", b"2")
            failed.set()
            await go_on.wait()

    task = asyncio.create_task(first())
    await failed.wait()
    with pytest.raises(AbortableTransactionError, match="can't begin"):
        async with producer.transaction():
            pass
    go_on.set()
    with pytest.raises(AbortableTransactionError, match="can't commit"):
        await task
    async with producer.transaction():
        await producer.send("orders", b"3")
    await producer.close()


async def commit_in_a_block(producer: Producer) -> None:
    async with producer.transaction():
        producer.send("orders", b"v")
        await producer.commit_transaction()


async def test_an_explicit_commit_that_fails_in_a_block_is_aborted_by_it(
    cluster: MockCluster,
) -> None:
    async with made(cluster) as producer:
        cluster.push_request_errors(PRODUCE, INVALID_RECORD)
        with pytest.raises(AbortableTransactionError):
            await commit_in_a_block(producer)
        async with producer.transaction():
            assert (await producer.send("orders", b"v")).offset >= 0


async def test_no_transaction_ends_before_its_send_many(cluster: MockCluster) -> None:
    async with made(cluster) as producer:
        first, rest = asyncio.Event(), asyncio.Event()
        await producer.begin_transaction()
        many = asyncio.create_task(producer.send_many("orders", one_by_one(first, rest)))
        await first.wait()
        with pytest.raises(IllegalStateError, match=r"a send_many\(\) .* is under way"):
            await producer.commit_transaction()
        rest.set()
        assert (await many).delivered == 2
        await producer.commit_transaction()


async def test_after_an_abort_the_rest_of_a_send_many_is_in_no_transaction(
    cluster: MockCluster,
) -> None:
    async with made(cluster) as producer:
        first, rest = asyncio.Event(), asyncio.Event()
        await producer.begin_transaction()
        many = asyncio.create_task(producer.send_many("orders", one_by_one(first, rest)))
        await first.wait()
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match=r"can't begin .* a send_many\(\)"):
            await producer.begin_transaction()
        rest.set()
        report = await many
        assert report.failed >= 1
        async with producer.transaction():
            assert (await producer.send("orders", b"v")).offset >= 0


async def test_close_aborts_when_a_commit_that_nobody_waits_for_fails(
    cluster: MockCluster,
) -> None:
    producer = await started(cluster)
    await producer.begin_transaction()
    await producer.send("orders", b"1")
    cluster.start_request_tracking()
    cluster.push_request_errors(PRODUCE, INVALID_RECORD)
    producer.send("orders", b"2")
    committing = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0)
    committing.cancel()
    await asyncio.wait([committing])
    await producer.close()
    assert ends(cluster) == 1


async def test_a_commit_that_a_close_cuts_off_is_not_confirmed(cluster: MockCluster) -> None:
    producer = await started(cluster)
    await producer.begin_transaction()
    await producer.send("orders", b"1")
    cluster.set_broker_rtt(-1, 5_000)
    committing = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0.1)
    await producer.close(0)
    with pytest.raises(CommitUnconfirmedError) as caught:
        await committing
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value.__cause__, ProducerClosedError)


async def test_flush_tells_a_participant_that_a_record_failed(cluster: MockCluster) -> None:
    async with made(cluster) as producer:
        await producer.begin_transaction(shared=True)
        handle = producer.transaction_handle()
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, transaction=handle
        ) as other:
            other.send("orders", b"1")
            await other.flush()
            cluster.push_request_errors(PRODUCE, INVALID_RECORD)
            other.send("orders", b"2")
            with pytest.raises(AbortableTransactionError, match="can't flush"):
                await other.flush()
        await producer.abort_transaction()


@pytest.mark.parametrize(
    "group",
    [
        ConsumerGroupMetadata("g", "x"),  # type: ignore[arg-type]
        ConsumerGroupMetadata("g", 2**40),
        ConsumerGroupMetadata("g", 1, 7),  # type: ignore[arg-type]
        ConsumerGroupMetadata("g", 1, "m", 7),  # type: ignore[arg-type]
        "g" * 40_000,
        "\ud800",
    ],
)
async def test_a_group_that_no_request_can_carry(cluster: MockCluster, group: Any) -> None:
    async with made(cluster) as producer, producer.transaction():
        with pytest.raises(InvalidOffsetError):
            await producer.send_offsets_to_transaction({("orders", 0): 1}, group)
        await producer.send_offsets_to_transaction({("orders", 0): 1}, "g")


@pytest.mark.parametrize(
    "offsets",
    [
        {("orders", 2**40): 1},
        {("orders", 0): OffsetAndMetadata(1, "m" * 40_000)},
        {("orders", 0): OffsetAndMetadata(1, "\ud800")},
        {("orders", 0): 2**63},
    ],
)
async def test_offsets_that_no_request_can_carry(cluster: MockCluster, offsets: Any) -> None:
    async with made(cluster) as producer, producer.transaction():
        with pytest.raises(InvalidOffsetError):
            await producer.send_offsets_to_transaction(offsets, "g")


@pytest.mark.parametrize(
    "handle",
    [
        "t",
        ("t", 1, 0, 2),
        TransactionHandle("t", "a", 0, 1),  # type: ignore[arg-type]
        TransactionHandle("t", -1, -1, 1),
        TransactionHandle("t", 1, 0, 3),
    ],
)
def test_what_is_no_handle(handle: Any) -> None:
    with pytest.raises(ConfigError, match="handle"):
        Producer(bootstrap_servers="127.0.0.1:1", transaction=handle)
