"""Records of a partition are in the log in the order of their ``send()`` calls, whatever way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from aioproducer import Producer, RecordMetadata
from aioproducer.testing.mock_cluster import ALL_BROKERS, DISCONNECT, MockCluster
from tests.support.inside import accumulator_of
from tests.support.read_back import values

PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
PATIENCE = 60.0


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


async def test_metadata_wait_memory_wait_and_fast_path(orders: MockCluster) -> None:
    """One stream of records, keyed by partition; keys, headers and sizes choose the way in."""
    random = Random(3)
    orders.set_broker_rtt(ALL_BROKERS, 5)
    ways = set()
    futures: list[asyncio.Future[RecordMetadata]] = []
    sent: list[list[bytes]] = [[], [], []]
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, buffer_memory=40_000, batch_size=1_000
    ) as producer:
        for number in range(900):
            partition = number % 3
            value = b"%d " % number + bytes(random.choice([0, 1, 300, 2_000]))
            headers = {"h": b"v"} if number % 5 == 0 else None
            futures.append(producer.send("orders", value, partition=partition, headers=headers))
            sent[partition].append(value)
            accumulator = accumulator_of(producer)
            ways.add(
                "metadata"
                if not accumulator._topics
                else "memory"
                if accumulator.pending
                else "fast"
            )
            if accumulator._records.bytes > 3_000:
                await producer.drain()
        await producer.flush(PATIENCE)
    assert ways == {"metadata", "memory", "fast"}
    for partition in range(3):
        offsets = [future.result().offset for future in futures[partition::3]]
        assert offsets == list(range(300))
        assert values(orders, "orders", partition) == sent[partition]


async def test_disconnects_lose_nothing_and_change_no_order(orders: MockCluster) -> None:
    """A disconnect takes all five requests in flight with it; they go again as they went."""
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        batch_size=500,
        linger_ms=0,
        retry_backoff_ms=5,
        reconnect_backoff_ms=5,
        reconnect_backoff_max_ms=20,
    ) as producer:
        for partition in range(3):
            await producer.send("orders", b"-", partition=partition)
        for turn in range(5):
            for broker in orders.broker_ids:
                orders.push_broker_request_errors(broker, PRODUCE, *[(DISCONNECT, 0)] * 5)
            for number in range(300):
                producer.send("orders", b"%d-%d" % (turn, number), partition=number % 3)
            await producer.flush(PATIENCE)
    for partition in range(3):
        expected = [
            b"%d-%d" % (turn, number) for turn in range(5) for number in range(partition, 300, 3)
        ]
        assert values(orders, "orders", partition)[1:] == expected


async def test_leaders_that_move_change_no_order(orders: MockCluster) -> None:
    async with Producer(bootstrap_servers=orders.bootstrap_servers, retry_backoff_ms=5) as producer:
        for turn in range(20):
            for number in range(50):
                producer.send("orders", b"%d-%d" % (turn, number), partition=0)
            await producer.flush(PATIENCE)
            orders.set_partition_leader("orders", 0, turn % 3 + 1)
    expected = [b"%d-%d" % (turn, number) for turn in range(20) for number in range(50)]
    assert values(orders, "orders", 0) == expected


async def test_a_lone_record_makes_one_request_and_lingering_records_share_one(
    orders: MockCluster,
) -> None:
    def produced() -> int:
        return sum(request.api_key == PRODUCE for request in orders.requests())

    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        await producer.send("orders", b"v", partition=0)
        orders.start_request_tracking()
        for number in range(5):
            await producer.send("orders", b"v", partition=0)
            assert produced() == number + 1
    async with Producer(bootstrap_servers=orders.bootstrap_servers, linger_ms=4_000) as producer:
        await producer.send("orders", b"v", partition=0)
        orders.start_request_tracking()
        futures = []
        for _ in range(20):
            futures.append(producer.send("orders", b"v", partition=0))
            await asyncio.sleep(0.001)
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        assert produced() == 1
        (request,) = [each for each in orders.requests() if each.api_key == PRODUCE]
        assert request.broker_id == 1
