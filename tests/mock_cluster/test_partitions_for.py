"""The partitions of a topic: asked for and waited for as a record's topic is."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer import BootstrapError, MetadataTimeoutError, Producer, ProducerClosedError
from aioproducer.errors import KafkaError
from aioproducer.testing.mock_cluster import MockCluster

METADATA = 3
UNKNOWN_TOPIC, TOPIC_AUTHORIZATION_FAILED = 3, 29
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def orders(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 5)
    return mock_cluster


async def test_they_are_in_order_and_asked_for_once(orders: MockCluster) -> None:
    orders.start_request_tracking()
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        calls = (producer.partitions_for("orders") for _ in range(10))
        assert set(await asyncio.gather(*calls)) == {(0, 1, 2, 3, 4)}
        assert (await producer.send("orders", b"v", partition=4)).offset == 0
        assert await producer.partitions_for("orders") == (0, 1, 2, 3, 4)
        assert producer.metrics()["producer-metrics"]["metadata-wait-time-ns-total"] > 0
    asked = [each for each in orders.requests() if each.api_key == METADATA]
    assert len(asked) == 1


async def test_a_topic_that_is_not_there_in_time(orders: MockCluster) -> None:
    orders.create_topic("nope", 2)
    orders.set_topic_error("nope", UNKNOWN_TOPIC)
    options: Any = {"max_block_ms": 3_000, "retry_backoff_max_ms": 100}
    async with Producer(bootstrap_servers=orders.bootstrap_servers, **options) as producer:
        began = time.monotonic()
        with pytest.raises(MetadataTimeoutError, match=r"'nope'.*UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.partitions_for("nope")
        assert 3 <= time.monotonic() - began < 8
        orders.set_topic_error("nope", 0)
        assert await producer.partitions_for("nope") == (0, 1)


async def test_a_topic_that_is_refused(orders: MockCluster) -> None:
    orders.set_topic_error("orders", TOPIC_AUTHORIZATION_FAILED)
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:
        with pytest.raises(KafkaError, match="'orders'") as raised:
            await producer.partitions_for("orders")
        assert raised.value.code == TOPIC_AUTHORIZATION_FAILED


async def test_nobody_answers_in_time() -> None:
    async with Producer(bootstrap_servers=NOWHERE, max_block_ms=100) as producer:
        with pytest.raises(BootstrapError, match=r"'orders'.*Check bootstrap_servers"):
            await producer.partitions_for("orders")


async def test_a_failure_of_it_is_none_of_a_transaction(orders: MockCluster) -> None:
    orders.create_topic("secret")
    orders.set_topic_error("secret", TOPIC_AUTHORIZATION_FAILED)
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, transactional_id="shop"
    ) as producer:
        assert await producer.partitions_for("orders") == (0, 1, 2, 3, 4)
        async with producer.transaction():
            with pytest.raises(KafkaError):
                await producer.partitions_for("secret")
            sent = producer.send("orders", b"v")
        assert (await sent).topic == "orders"


async def test_close_does_not_wait_for_it_and_it_is_told() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)
    await producer.start()
    waiting = asyncio.create_task(producer.partitions_for("orders"))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    assert await producer.close() == 0
    assert time.monotonic() - began < 5
    with pytest.raises(ProducerClosedError):
        await waiting
