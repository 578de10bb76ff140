"""Producers that know the topic ``orders`` before the test begins."""

from __future__ import annotations

from typing import Any

from aioproducer import Producer
from aioproducer.testing.mock_cluster import MockCluster

PATIENCE = 60.0


async def started(cluster: MockCluster, **options: Any) -> Producer:
    """A producer that knows the topic; partitions 0 and 1 have one record each."""
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, **options)
    await producer.start()
    first = [producer.send("orders", b"first", partition=partition) for partition in (0, 1)]
    await producer.flush(PATIENCE)
    assert all(future.result().topic == "orders" for future in first)
    return producer
