"""close() in every state of a transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext

import pytest

from aioproducer import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    IllegalStateError,
    Producer,
    ProducerClosedError,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.mock_cluster.transactions.transacting import (
    END,
    NAME,
    PRODUCE,
    hold,
    requests,
    started,
    until_asked,
)


async def test_close_waits_for_a_commit_under_way(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        producer.send("orders", b"v", partition=0)
        hold(orders, END)
        committing = asyncio.create_task(producer.commit_transaction())
        await until_asked(orders, END)
        assert await producer.close() == 0
        await committing


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_close_at_once_leaves_an_end_unknown(orders: MockCluster, call: str) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        hold(orders, END, 60_000)
        ending = asyncio.create_task(getattr(producer, f"{call}_transaction")())
        await until_asked(orders, END)
        began = time.monotonic()
        assert await producer.close(0) == 0
        assert time.monotonic() - began < 5
        kind = CommitUnconfirmedError if call == "commit" else ProducerClosedError
        with pytest.raises(kind, match="what became of it is not known here"):
            await ending


async def test_close_aborts_what_is_open(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        with caplog.at_level(logging.WARNING, "aioproducer"):
            assert await producer.close() == 0
        assert len(requests(orders, END)) == 1
    assert f"transactional id '{NAME}': closed in a transaction, which is aborted" in caplog.text


async def test_close_is_bounded_when_the_coordinator_is_dead(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.set_broker_down(ALL_BROKERS)
        began = time.monotonic()
        await producer.close(0.3)
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("fails", [False, True], ids=["no exception", "an exception"])
async def test_close_leaves_open_what_was_handed_over(orders: MockCluster, fails: bool) -> None:
    async with started(orders) as producer:
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            async with producer.transaction(shared=True):
                producer.send("orders", b"v", partition=0)
                handle = producer.transaction_handle(hand_over=True)
                producer.send("orders", b"w", partition=0)
                if fails:
                    raise ZeroDivisionError
        with pytest.raises(IllegalStateError, match="end it first"):
            await producer.begin_transaction()
        await producer.flush()
        assert await producer.close() == 0
        assert requests(orders, END) == []
        async with Producer(
            bootstrap_servers=orders.bootstrap_servers, transaction=handle
        ) as another:
            await another.commit_transaction()
        assert requests(orders, END) == [1]


async def test_a_record_that_fails_is_told_before_others_commit(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        orders.push_request_errors(PRODUCE, 29)
        lost = producer.send("orders", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match=r"can't flush.*orders-0"):
            await producer.flush()
        assert lost.exception() is not None
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="handed its transaction over"):
            await producer.begin_transaction()


async def test_who_handed_a_transaction_over_may_end_it_as_well(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction(shared=True)
        producer.transaction_handle(hand_over=True)
        sent = producer.send("orders", b"v", partition=0)
        await producer.commit_transaction()
        assert sent.done()
        assert requests(orders, END) == [1]


async def test_close_within_a_block_is_told_by_it(orders: MockCluster) -> None:
    async def block(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("orders", b"v", partition=0)
            await producer.close()

    async with started(orders) as producer:
        with pytest.raises(ProducerClosedError):
            await block(producer)
        assert len(requests(orders, END)) == 1
