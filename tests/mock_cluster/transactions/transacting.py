"""Transactional producers of librdkafka's mock cluster, and the requests that they sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aioproducer import (
    Producer,
)
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.inside import all_tasks

PRODUCE, METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 3, 10, 22


ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 24, 25, 26, 28


PATIENCE = 60.0


NAME = "pay-7"


OFFSETS = {("orders", 0): 5}


NAMED = rf"transactional id '{NAME}'"


QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_max_ms": 50,
}


def new(cluster: MockCluster, **options: Any) -> Producer:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": NAME}
    return Producer(**{**settings, **QUICK, **options})


@asynccontextmanager
async def started(cluster: MockCluster, **options: Any) -> AsyncIterator[Producer]:
    """A producer that has done a transaction; it ends quickly, with its tasks."""
    producer = new(cluster, **options)
    await producer.start()
    try:
        await transact(producer)
        cluster.start_request_tracking()
        yield producer
    finally:
        await producer.close(0)
        assert tasks() == []


def tasks() -> list[asyncio.Task[Any]]:
    """What runs beside the test."""
    return [task for task in all_tasks() if task is not asyncio.current_task()]


async def transact(producer: Producer) -> None:
    """A record and offsets in a transaction."""
    async with asyncio.timeout(PATIENCE), producer.transaction():
        producer.send("orders", b"v", partition=0)
        await producer.send_offsets_to_transaction(OFFSETS, "readers")


def requests(cluster: MockCluster, api: int) -> list[int]:
    """The brokers that were asked."""
    return [each.broker_id for each in cluster.requests() if each.api_key == api]


LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT = 14, 15, 16, 51


def hold(cluster: MockCluster, api: int, milliseconds: int = 1_000) -> None:
    """The next answers of a kind are late, but come."""
    cluster.clear_requests()
    for broker in cluster.broker_ids:
        cluster.push_broker_request_errors(broker, api, (0, milliseconds))


async def until_asked(cluster: MockCluster, api: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while not requests(cluster, api):  # noqa: ASYNC110 -- another process is looked at
            await asyncio.sleep(0.005)
