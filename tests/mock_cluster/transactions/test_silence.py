"""Transactions whose brokers do not answer, and calls that are cancelled or time out."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from aioproducer import (
    AbortableTransactionError,
    IllegalStateError,
    Producer,
    ProducerClosedError,
    ProducerTimeoutError,
)
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster
from tests.mock_cluster.transactions.transacting import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    END,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LOADING,
    NAME,
    NAMED,
    OFFSETS,
    PATIENCE,
    PRODUCE,
    hold,
    new,
    requests,
    started,
    tasks,
    transact,
    until_asked,
)

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("servers", [NOWHERE, "unknown-host.invalid:9092"])
async def test_a_start_without_brokers_ends_in_time_and_leaves_nothing(servers: str) -> None:
    producer = Producer(bootstrap_servers=servers, transactional_id=NAME, max_block_ms=3_000)
    began = time.monotonic()
    expected = rf"{NAMED}: init_transactions\(\) is not done within 3 s \(max_block_ms\): .*"
    with pytest.raises(ProducerTimeoutError, match=expected) as raised:
        await producer.start()
    assert time.monotonic() - began < 13
    assert servers.partition(":")[0] in str(raised.value)
    assert "Check bootstrap_servers" in str(raised.value)
    assert tasks() == []
    with pytest.raises(ProducerClosedError):
        producer.send("orders", b"v")


async def test_a_start_with_brokers_that_are_silent(orders: MockCluster) -> None:
    orders.set_broker_rtt(ALL_BROKERS, 60_000)
    producer = new(orders, max_block_ms=300)
    with pytest.raises(ProducerTimeoutError, match="max_block_ms"):
        await producer.start()
    assert tasks() == []


async def test_a_start_that_is_cancelled_leaves_nothing(orders: MockCluster) -> None:
    orders.push_request_errors(INIT_PRODUCER_ID, *[LOADING] * 10_000)
    producer = new(orders)
    starting = asyncio.create_task(producer.start())
    await asyncio.sleep(0.2)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert tasks() == []


STEPS = {
    "add partitions": ADD_PARTITIONS,
    "produce": PRODUCE,
    "add offsets": ADD_OFFSETS,
    "commit offsets": COMMIT_OFFSETS,
    "end": END,
}


@pytest.mark.parametrize("api", STEPS.values(), ids=STEPS)
async def test_every_step_is_bounded_when_the_brokers_die(orders: MockCluster, api: int) -> None:
    async with started(orders, max_block_ms=3_000) as producer:
        for broker in orders.broker_ids:  # they still answer what comes before
            orders.push_broker_request_errors(broker, api, (0, 60_000))
        trying = asyncio.create_task(transact(producer))
        await until_asked(orders, api)
        orders.set_broker_down(ALL_BROKERS)
        began = time.monotonic()
        with pytest.raises(ProducerTimeoutError, match=r"is not done within 3 s") as raised:
            await trying
        assert re.search(NAMED, str(raised.value))
        assert time.monotonic() - began < 20
        orders.set_broker_up(ALL_BROKERS)
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await transact(producer)
                    break
                except ProducerTimeoutError:
                    continue


async def test_a_slow_coordinator_is_asked_again_after_the_request_timeout(
    orders: MockCluster,
) -> None:
    async with started(orders, request_timeout_ms=2_000, delivery_timeout_ms=60_000) as producer:
        orders.push_broker_request_errors(1, END, (0, 30_000))
        await transact(producer)
        assert len(requests(orders, END)) == 2
        await transact(producer)


async def test_slow_brokers_make_a_transaction_slow_and_nothing_else(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_broker_rtt(ALL_BROKERS, 100)
        await transact(producer)


@pytest.mark.parametrize("kind", ["transaction", "group"])
async def test_a_coordinator_that_moves_is_followed(orders: MockCluster, kind: Any) -> None:
    async with started(orders) as producer:
        orders.set_coordinator(kind, NAME if kind == "transaction" else "readers", 3)
        await transact(producer)
        assert requests(orders, END if kind == "transaction" else COMMIT_OFFSETS)[-1] == 3
        await transact(producer)


async def test_the_search_for_a_coordinator_goes_on_elsewhere(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_coordinator("transaction", NAME, 3)
        orders.push_request_errors(FIND_COORDINATOR, DISCONNECT, DISCONNECT)
        await transact(producer)
        assert requests(orders, END)[-1] == 3
        assert len(requests(orders, FIND_COORDINATOR)) >= 3


async def test_a_coordinator_that_dies_is_replaced(orders: MockCluster) -> None:
    async with started(orders) as producer:
        orders.set_broker_down(1)
        orders.set_coordinator("transaction", NAME, 3)
        async with asyncio.timeout(PATIENCE), producer.transaction():
            await producer.send("orders", b"v", partition=1)
        assert requests(orders, END) == [3]
        orders.set_broker_up(1)
        await transact(producer)


async def test_a_cancelled_commit_goes_on_and_can_be_taken_up(orders: MockCluster) -> None:
    async with started(orders) as producer:
        for take_up in ("commit", "begin"):
            await producer.begin_transaction()
            producer.send("orders", b"v", partition=0)
            hold(orders, END, 3_000)
            committing = asyncio.create_task(producer.commit_transaction())
            await until_asked(orders, END)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            with pytest.raises(IllegalStateError, match="can't be taken back"):
                await producer.abort_transaction()
            with pytest.raises(IllegalStateError, match="committing"):
                producer.send("orders", b"v")
            if take_up == "commit":
                await producer.commit_transaction()
                with pytest.raises(IllegalStateError, match="no transaction is open"):
                    await producer.commit_transaction()
            assert len(requests(orders, END)) == 1
        await transact(producer)


async def test_a_cancelled_commit_that_fails_is_told_to_the_next_one(orders: MockCluster) -> None:
    async with started(orders) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        orders.push_broker_request_errors(1, END, (48, 2_000))
        committing = asyncio.create_task(producer.commit_transaction())
        await until_asked(orders, END)
        committing.cancel()
        await asyncio.wait([committing])
        with pytest.raises(AbortableTransactionError, match="INVALID_TXN_STATE"):
            await transact(producer)
        await transact(producer)


async def test_a_cancelled_abort_goes_on_and_can_be_taken_up(orders: MockCluster) -> None:
    async with started(orders) as producer:
        for take_up in ("abort", "begin"):
            await producer.begin_transaction()
            await producer.send("orders", b"v", partition=0)
            hold(orders, END, 3_000)
            aborting = asyncio.create_task(producer.abort_transaction())
            await until_asked(orders, END)
            aborting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await aborting
            if take_up == "abort":
                await producer.abort_transaction()
            assert len(requests(orders, END)) == 1
        await transact(producer)


@pytest.mark.parametrize("call", ["commit", "abort"])
async def test_an_end_that_times_out_goes_on(orders: MockCluster, call: str) -> None:
    async with started(orders) as producer:
        end = getattr(producer, f"{call}_transaction")
        await producer.begin_transaction()
        await producer.send("orders", b"v", partition=0)
        hold(orders, END)
        with pytest.raises(
            ProducerTimeoutError, match=rf"not known yet: `await {call}_transaction\(\)` again"
        ):
            await end(0.05)
        await end()
        assert len(requests(orders, END)) == 1
        await transact(producer)


async def test_cancelled_offsets_are_written_all_the_same(orders: MockCluster) -> None:
    async with started(orders) as producer:
        async with producer.transaction():
            hold(orders, COMMIT_OFFSETS)
            sending = asyncio.create_task(producer.send_offsets_to_transaction(OFFSETS, "readers"))
            await until_asked(orders, COMMIT_OFFSETS)
            sending.cancel()
            await asyncio.wait([sending])
        assert len(requests(orders, COMMIT_OFFSETS)) == 1
        await transact(producer)


async def test_a_cancelled_block_is_aborted(orders: MockCluster) -> None:
    async with started(orders) as producer:
        sent = asyncio.Event()

        async def block() -> None:
            async with producer.transaction():
                await producer.send("orders", b"v", partition=0)
                sent.set()
                await asyncio.sleep(PATIENCE)

        blocking = asyncio.create_task(block())
        await sent.wait()
        blocking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await blocking
        assert len(requests(orders, END)) == 1
        await transact(producer)
