"""Transactions whose brokers do not answer."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from aioproducer import (
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
    PATIENCE,
    PRODUCE,
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
