"""Brokers that answer nothing hold up their own partitions and no others, for every way to send."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aioproducer import BufferExhaustedError, Producer, ProducerError, RecordMetadata, sync
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.inside import accumulator_of
from tests.support.waiting import until

PATIENCE = 60.0
VALUE = bytes(200)
MEMORY = 400_000
RECORDS = 5_000
"""Several times as many as the memory has place for."""
FOREVER_MS = 3_600_000

ALIVE = 0
"""The partition of the broker that answers."""


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


def silence(cluster: MockCluster, brokers: int) -> list[int]:
    """Let so many brokers answer nothing; the partitions that they lead."""
    silent = list(range(3 - brokers, 3))
    for partition in silent:
        cluster.set_broker_rtt(partition + 1, FOREVER_MS)
    return silent


@asynccontextmanager
async def producing(cluster: MockCluster, memory: int = MEMORY) -> AsyncIterator[Producer]:
    producer = Producer(
        bootstrap_servers=cluster.bootstrap_servers, buffer_memory=memory, batch_size=4_000
    )
    await producer.start()
    await asyncio.gather(*(producer.send("orders", b"first", partition=p) for p in range(3)))
    yield producer
    await producer.close(0)


async def send(producer: Producer, partition: int, count: int) -> None:
    """Without ``drain()``, with some futures awaited."""
    for _ in range(count // 50):
        futures = [producer.send("orders", VALUE, partition=partition) for _ in range(50)]
        await asyncio.gather(*futures)


async def send_and_drain(producer: Producer, partition: int, count: int) -> None:
    futures = []
    for _ in range(count):
        futures.append(producer.send("orders", VALUE, partition=partition))
        await producer.drain()
    await asyncio.gather(*futures)


async def send_many(producer: Producer, partition: int, count: int) -> None:
    for _ in range(count // 200):
        report = await producer.send_many("orders", [VALUE] * 200, partition=partition)
        report.raise_for_failures()


async def never_ending(producer: Producer, way: Any, partition: int) -> None:
    while True:
        with suppress(BufferExhaustedError):
            await way(producer, partition, RECORDS)
        await asyncio.sleep(0.001)


async def flood(producer: Producer, partition: int) -> None:
    """Send without waiting for anything, until nothing more is taken; and go on."""
    while True:
        with suppress(BufferExhaustedError):
            while True:
                producer.send("orders", VALUE, partition=partition)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("way", [send, send_and_drain, send_many])
async def test_the_healthy_ones_go_on(cluster: MockCluster, way: Any, brokers: int) -> None:
    async with producing(cluster) as producer:
        silent = silence(cluster, brokers)
        stuck = [asyncio.create_task(flood(producer, partition)) for partition in silent]
        stuck += [asyncio.create_task(never_ending(producer, way, part)) for part in silent]
        await until(lambda: accumulator_of(producer).waiters.is_full)
        async with asyncio.timeout(PATIENCE):
            await way(producer, ALIVE, RECORDS)
        for task in stuck:
            assert not task.done()
            task.cancel()
        await asyncio.wait(stuck)


async def test_threads_with_records_for_healthy_brokers_go_on(cluster: MockCluster) -> None:
    producer = sync.Producer(
        bootstrap_servers=cluster.bootstrap_servers, buffer_memory=MEMORY, batch_size=4_000
    )
    producer.start()
    for partition in range(3):
        producer.send("orders", b"first", partition=partition).result(PATIENCE)
    silent = silence(cluster, 2)
    stopped = threading.Event()

    def write(partition: int) -> None:
        with suppress(ProducerError):
            while not stopped.is_set():
                producer.send("orders", VALUE, partition=partition)

    threads = [threading.Thread(target=write, args=[partition]) for partition in silent]
    for thread in threads:
        thread.start()
    await until(lambda: all(map(producer._thread._inbox.stalled, threads)))
    futures: list[Future[RecordMetadata]] = [
        producer.send("orders", VALUE, partition=ALIVE) for _ in range(RECORDS)
    ]
    for future in futures:
        assert future.result(PATIENCE).partition == ALIVE
    stopped.set()
    producer.close(0)
    for thread in threads:
        thread.join(PATIENCE)


async def test_a_single_caller_waits_for_a_stuck_broker_and_loses_nothing(
    cluster: MockCluster,
) -> None:
    """Its records go everywhere, so it stops where memory ends, and goes on with the broker."""
    async with producing(cluster, MEMORY // 4) as producer:
        cluster.set_broker_rtt(3, 1_500)
        futures = []
        async with asyncio.timeout(PATIENCE):
            for number in range(RECORDS // 3):
                futures.append(producer.send("orders", VALUE, partition=number % 3))
                await producer.drain()
            cluster.set_broker_rtt(3, 0)
            await asyncio.gather(*futures)
