"""FastStream's broker publishes by this project's core; its own test client works as before."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import warnings
from itertools import count
from typing import Any

import pytest
from faststream import BaseMiddleware
from faststream.kafka import KafkaBroker, KafkaMessage, TestKafkaBroker, TopicPartition
from faststream.middlewares import AckPolicy

from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.aiokafka.errors import KafkaError
from aioproducer.compat.faststream import exactly_once, use_aioproducer
from aioproducer.compat.faststream.subscribers import TransactionalConsumer, TransactionalIds
from aioproducer.errors import ConfigError, IllegalStateError, MissingExtraError
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import read_topic

HEADERS = (("content-type", b"application/json"), ("correlation_id", b"c-1"), ("shop", b"7"))


def producer_of(broker: KafkaBroker) -> Any:
    return broker.config.producer


def below(broker: KafkaBroker) -> object:
    """The client below FastStream's producer."""
    client: object = producer_of(broker)._producer.producer
    return client


def made(cluster: MockCluster, **options: Any) -> KafkaBroker:
    return use_aioproducer(
        KafkaBroker(cluster.bootstrap_servers.split(","), logger=None, **options)
    )


@pytest.fixture
def orders(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("orders", 1)
    return mock_cluster


async def test_a_broker_publishes_by_ours(orders: MockCluster) -> None:
    broker = made(orders)
    async with broker:
        sent = await broker.publish(
            {"article": 7}, "orders", key=b"anna", headers={"shop": "7"}, correlation_id="c-1"
        )
        assert type(below(broker)) is AIOKafkaProducer
        assert not producer_of(broker).closed
    assert producer_of(broker).closed
    assert (sent.topic, sent.partition, sent.offset) == ("orders", 0, 0)
    [(_, _, key, value, headers, _)] = read_topic(orders, "orders")
    assert (key, json.loads(value or b"")) == (b"anna", {"article": 7})
    assert sorted(headers or []) == sorted(HEADERS)


async def test_batches_futures_and_tombstones(orders: MockCluster) -> None:
    async with made(orders, linger_ms=1) as broker:
        await broker.publish_batch("one", "two", topic="orders", correlation_id="c-2")
        future = await broker.publish("three", "orders", no_confirm=True)
        assert isinstance(future, asyncio.Future)
        assert (await future).offset == 2
        await broker.publish(None, "orders", key=b"anna")
        await producer_of(broker).flush()
    found = read_topic(orders, "orders")
    assert [value for _, _, _, value, _, _ in found] == [b"one", b"two", b"three", None]
    assert all(("correlation_id", b"c-2") in (headers or []) for *_, headers, _ in found[:2])


@pytest.mark.parametrize(
    "options",
    [
        {"compression_type": "zstd", "acks": "all"},
        {"enable_idempotence": True, "linger_ms": 5, "max_batch_size": 100_000},
        {"acks": 0},
        {"client_id": "shop", "request_timeout_ms": 5_000, "metadata_max_age_ms": 60_000},
        {"partitioner": lambda key, every, available: every[-1]},
    ],
)
async def test_the_options_of_a_broker_are_those_of_the_producer(
    orders: MockCluster, options: dict[str, Any]
) -> None:
    async with made(orders, **options) as broker:
        await broker.publish("one", "orders")
    assert len(read_topic(orders, "orders")) == 1


async def test_nothing_is_left_behind(orders: MockCluster) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with made(orders) as broker:
            await broker.publish("one", "orders")
        del broker
        gc.collect()


async def test_middlewares_and_publishers_use_it(orders: MockCluster) -> None:
    seen = []

    class Watch(BaseMiddleware):
        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            seen.append(cmd.destination)
            return await call_next(cmd)

    async with made(orders, middlewares=[Watch]) as broker:
        publisher = broker.publisher("orders")
        await publisher.publish("one", correlation_id="c-1")
    assert seen == ["orders"]
    assert len(read_topic(orders, "orders")) == 1


async def test_the_test_client_replaces_it_meanwhile(orders: MockCluster) -> None:
    broker = made(orders)

    @broker.subscriber("orders")
    @broker.publisher("invoices")
    async def bill(order: dict[str, int]) -> str:
        return f"invoice of {order['article']}"

    ours = broker.config.producer
    async with TestKafkaBroker(broker) as tested:
        await tested.publish({"article": 7}, "orders")
        bill.mock.assert_called_once_with({"article": 7})
        answer: KafkaMessage = await tested.request({"article": 8}, "orders")
        assert await answer.decode() == "invoice of 8"
        with pytest.raises(IllegalStateError, match="outside of TestKafkaBroker"):
            use_aioproducer(tested)
    assert broker.config.producer is ours
    assert read_topic(orders, "orders") == []


async def test_the_test_client_takes_exactly_once_subscribers(orders: MockCluster) -> None:
    broker = made(orders)

    @exactly_once(
        broker.subscriber("orders", group_id="billing", ack_policy=AckPolicy.NACK_ON_ERROR),
        transactional_id="billing-1",
    )
    @broker.publisher("invoices")
    async def bill(order: dict[str, int]) -> str:
        return f"invoice of {order['article']}"

    async with TestKafkaBroker(broker) as tested:
        await tested.publish({"article": 7}, "orders")
        bill.mock.assert_called_once_with({"article": 7})


async def test_exactly_once_needs_our_producer(orders: MockCluster) -> None:
    broker = KafkaBroker(orders.bootstrap_servers.split(","), logger=None)
    subscriber = broker.subscriber("orders", group_id="g", ack_policy=AckPolicy.NACK_ON_ERROR)
    exactly_once(subscriber, transactional_id="billing-1")
    async with broker:
        with pytest.raises(IllegalStateError, match=r"use_aioproducer\(broker\)"):
            await broker.start()


NACK: dict[str, Any] = {"ack_policy": AckPolicy.NACK_ON_ERROR}


@pytest.mark.parametrize(
    ("options", "transactional_id", "message"),
    [
        ({"group_id": "g"}, "b-1", "needs a subscriber with ack_policy=AckPolicy.NACK_ON_ERROR"),
        ({"group_id": "g", "ack_policy": AckPolicy.ACK}, "b-1", "NACK_ON_ERROR, not AckPolicy.ACK"),
        (NACK, "b-1", "needs a subscriber with a group_id"),
        ({"group_id": "g", **NACK}, " ", "transactional_id must be a str that is not empty"),
    ],
)
def test_what_can_not_be_exactly_once_is_refused(
    options: dict[str, Any], transactional_id: str, message: str
) -> None:
    broker = KafkaBroker("localhost:9092")
    with pytest.raises(ConfigError, match=message):
        exactly_once(broker.subscriber("orders", **options), transactional_id=transactional_id)


def test_assigned_partitions_are_refused() -> None:
    subscriber = KafkaBroker("localhost:9092").subscriber(
        partitions=[TopicPartition("orders", 0)], group_id="g", **NACK
    )
    with pytest.raises(ConfigError, match="topics or a pattern, not partitions"):
        exactly_once(subscriber, transactional_id="billing-1")


async def test_a_consumer_that_did_not_start_has_no_transactional_id() -> None:
    broker = use_aioproducer(KafkaBroker("127.0.0.1:1", request_timeout_ms=300))
    ids = TransactionalIds("billing-1")
    consumer = TransactionalConsumer(producer_of(broker), ids, group_id="billing")
    with pytest.raises(KafkaError):
        await consumer.start()
    others = ids.take()
    await consumer.stop()
    assert (others, ids.take()) == (("billing-1", 0), ("billing-1-1", 1))


async def test_a_transactional_id_is_given_back_once_its_producer_has_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, others = TransactionalIds("billing-1"), []
    stop = AIOKafkaProducer.stop

    async def stop_slowly(producer: AIOKafkaProducer) -> None:
        others.append(ids.take())
        await stop(producer)

    monkeypatch.setattr(AIOKafkaProducer, "stop", stop_slowly)
    broker = use_aioproducer(KafkaBroker("127.0.0.1:1", request_timeout_ms=300))
    consumer = TransactionalConsumer(producer_of(broker), ids, group_id="billing")
    with pytest.raises(KafkaError):
        await consumer.start()
    assert (others, ids.take()) == ([("billing-1-1", 1)], ("billing-1", 0))


async def test_a_second_stop_gives_back_no_transactional_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, calls, over = TransactionalIds("billing-1"), count(), asyncio.Event()
    broker = use_aioproducer(KafkaBroker("127.0.0.1:1"))
    consumer = TransactionalConsumer(producer_of(broker), ids, group_id="billing")

    async def abort() -> None:
        await (over.wait() if next(calls) else asyncio.sleep(0.1))

    monkeypatch.setattr(consumer, "_abort", abort)
    monkeypatch.setattr(consumer, "_number", ids.take()[1])
    first, second = (asyncio.create_task(consumer.stop()) for _ in range(2))
    await first
    assert ids.take() == ("billing-1", 0)
    over.set()
    await second
    assert ids.take() == ("billing-1-1", 1)


@pytest.mark.filterwarnings("ignore:The integration has been moved:DeprecationWarning")
async def test_a_broker_within_fastapi(orders: MockCluster) -> None:
    fastapi = pytest.importorskip("faststream.kafka.fastapi")
    router = fastapi.KafkaRouter(orders.bootstrap_servers.split(","), logger=None)
    broker = use_aioproducer(router.broker)
    assert use_aioproducer(broker) is broker
    async with broker:
        await broker.publish("one", "orders")
    assert len(read_topic(orders, "orders")) == 1


async def test_a_connected_broker_is_refused(orders: MockCluster) -> None:
    async with KafkaBroker(orders.bootstrap_servers.split(","), logger=None) as broker:
        await broker.publish("one", "orders")
        with pytest.raises(IllegalStateError, match="that is not connected"):
            use_aioproducer(broker)


def test_a_missing_faststream_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("aioproducer.compat.faststream")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "faststream.kafka", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'faststream\[kafka\]'"):
        importlib.import_module("aioproducer.compat.faststream")
