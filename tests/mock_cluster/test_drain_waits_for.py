"""What `drain()` waits for, and that it goes on when that has come."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import Producer
from aioproducer.testing import MockCluster

PATIENCE = 60.0

pytestmark = pytest.mark.mock_cluster


async def test_drain_goes_on_when_the_topic_becomes_known(mock_cluster: MockCluster) -> None:
    """The line is crowded with records that wait for metadata, not for memory."""
    mock_cluster.create_topic("orders", 4)
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        futures = []

        async def send_all() -> None:
            for number in range(60_000):
                futures.append(producer.send("orders", b"%d" % number))
                await producer.drain()

        await asyncio.wait_for(send_all(), PATIENCE)
        await asyncio.wait_for(producer.flush(), PATIENCE)
        assert all(future.done() and future.exception() is None for future in futures)


async def test_nothing_lingers_while_somebody_waits_in_drain(mock_cluster: MockCluster) -> None:
    """Four open batches hold all memory, and none of them would leave for an hour."""
    mock_cluster.create_topic("orders", 4)
    async with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        linger_ms=3_600_000,
        delivery_timeout_ms=7_200_000,
        batch_size=1_000,
        buffer_memory=5_400,
    ) as producer:
        first = producer.send("orders", b"to know the topic", partition=0)
        await asyncio.wait_for(producer.flush(), PATIENCE)
        assert first.done()
        for partition in range(4):
            producer.send("orders", b"v", partition=partition)
        await asyncio.wait_for(producer.drain(), PATIENCE)
