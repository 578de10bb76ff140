"""The partitions of a topic: asked for and waited for as a record's topic is."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer import BootstrapError, MetadataTimeoutError, Node, Producer, ProducerClosedError
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


async def test_leaders_and_replicas_are_asked_for_with_each_call(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("copied", 3, replication_factor=2)
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        infos = await producer.partition_infos_for("copied")
        brokers = {
            Node(number + 1, *address) for number, address in enumerate(addresses(mock_cluster))
        }
        assert [(each.topic, each.partition) for each in infos] == [
            ("copied", 0),
            ("copied", 1),
            ("copied", 2),
        ]
        for each in infos:
            assert each.leader in each.replicas
            assert set(each.replicas) <= brokers
            assert len(each.replicas) == 2
            assert set(each.in_sync_replicas) <= set(each.replicas)
            assert each.offline_replicas == ()
        moved = infos[0].replicas[infos[0].replicas.index(infos[0].leader) - 1]
        mock_cluster.set_partition_leader("copied", 0, moved.id)
        mock_cluster.start_request_tracking()
        calls = (producer.partition_infos_for("copied") for _ in range(5))
        for now in await asyncio.gather(*calls):
            assert now[0].leader == moved
        assert len([each for each in mock_cluster.requests() if each.api_key == METADATA]) == 1
        assert await producer.partitions_for("copied") == (0, 1, 2)


async def test_replicas_of_a_topic_that_is_not_there_in_time(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("nope", 2)
    mock_cluster.set_topic_error("nope", UNKNOWN_TOPIC)
    options: Any = {"max_block_ms": 500, "retry_backoff_max_ms": 100}
    async with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, **options) as producer:
        with pytest.raises(MetadataTimeoutError, match=r"'nope'.*UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.partition_infos_for("nope")
        mock_cluster.set_topic_error("nope", TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="'nope'"):
            await producer.partition_infos_for("nope")
        mock_cluster.set_topic_error("nope", 0)
        assert len(await producer.partition_infos_for("nope")) == 2


def addresses(cluster: MockCluster) -> list[tuple[str, int]]:
    """Of the brokers, from the first."""
    pairs = (each.rsplit(":", 1) for each in cluster.bootstrap_servers.split(","))
    return [(host, int(port)) for host, port in pairs]


async def test_a_topic_that_is_not_there_in_time(orders: MockCluster) -> None:
    orders.create_topic("nope", 2)
    orders.set_topic_error("nope", UNKNOWN_TOPIC)
    options: Any = {"max_block_ms": 3_000, "retry_backoff_max_ms": 100}
    options |= {"delivery_timeout_ms": 1_000, "request_timeout_ms": 900}  # those of records
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
