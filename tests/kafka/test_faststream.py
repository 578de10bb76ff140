"""FastStream publishes by this project's core to real brokers; confluent-kafka reads it back."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from faststream.kafka import KafkaBroker, KafkaResponse, TestKafkaBroker

from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.faststream import use_aioproducer
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "faststream_app.py"
PATIENCE = 60.0


async def read(cluster: KafkaCluster, topic: str, count: int, partitions: int = 1) -> list[Message]:
    return await asyncio.to_thread(read_blocking, cluster, topic, count, partitions)


def read_blocking(cluster: KafkaCluster, topic: str, count: int, partitions: int) -> list[Message]:
    """The first ``count`` records of a topic, those of a partition in their order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[Message] = []
        while len(found) < count:
            batch = consumer.consume(count - len(found), PATIENCE)
            assert batch, f"{len(found)} of {count} records"
            found += batch
    finally:
        consumer.close()
    return found


def content(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.value() or b"")
    return found


def below(broker: KafkaBroker) -> object:
    """The client below FastStream's producer."""
    producer: Any = broker.config.producer
    client: object = producer._producer.producer
    return client


@pytest.fixture
def broker(kafka: KafkaCluster) -> KafkaBroker:
    servers = kafka.bootstrap_servers.split(",")
    return use_aioproducer(KafkaBroker(servers, logger=None, acks="all", enable_idempotence=True))


async def test_records_batches_headers_and_keys(kafka: KafkaCluster, broker: KafkaBroker) -> None:
    await kafka.create_topic("faststream-records", 3, 3)
    orders: list[Any] = [{"article": number} for number in range(20)]
    async with broker:
        assert type(below(broker)) is AIOKafkaProducer
        sent = await broker.publish(
            {"article": 7}, "faststream-records", key=b"anna", partition=0, correlation_id="c-1"
        )
        assert (sent.topic, sent.partition, sent.offset) == ("faststream-records", 0, 0)
        await broker.publish_batch(
            *orders,
            topic="faststream-records",
            partition=1,
            headers={"shop": "7"},
            correlation_id="c-2",
        )
        future = await broker.publish("plain", "faststream-records", partition=2, no_confirm=True)
        assert (await future).offset == 0
    found = await read(kafka, "faststream-records", 22, 3)
    one, many, plain = ([each for each in found if each.partition() == i] for i in range(3))
    assert [(each.key(), content(each)) for each in one] == [(b"anna", {"article": 7})]
    assert sorted(one[0].headers() or []) == [
        ("content-type", b"application/json"),
        ("correlation_id", b"c-1"),
    ]
    assert [content(each) for each in many] == orders
    assert all(("shop", b"7") in (each.headers() or []) for each in many)
    assert [each.value() for each in plain] == [b"plain"]


async def test_a_subscriber_replies_through_it(kafka: KafkaCluster, broker: KafkaBroker) -> None:
    for topic in ("faststream-orders", "faststream-invoices", "faststream-answers"):
        await kafka.create_topic(topic, 1, 1)

    @broker.subscriber("faststream-orders", auto_offset_reset="earliest")
    @broker.publisher("faststream-invoices")
    async def bill(order: dict[str, int]) -> KafkaResponse:
        return KafkaResponse({"invoice": order["article"]}, key=b"anna")

    async with TestKafkaBroker(broker, with_real=True) as real:
        assert type(below(real)) is AIOKafkaProducer
        await real.publish(
            {"article": 7},
            "faststream-orders",
            correlation_id="c-9",
            reply_to="faststream-answers",
        )
        await bill.wait_call(PATIENCE)
        for topic in ("faststream-invoices", "faststream-answers"):
            [found] = await read(kafka, topic, 1)
            assert (found.key(), content(found)) == (b"anna", {"invoice": 7})
            assert ("correlation_id", b"c-9") in (found.headers() or [])


@pytest.fixture
def service(kafka: KafkaCluster) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    with subprocess.Popen(
        [sys.executable, EXAMPLE], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


async def test_the_example(
    kafka: KafkaCluster, broker: KafkaBroker, request: pytest.FixtureRequest
) -> None:
    for topic in ("coffee-orders", "coffee-invoices"):
        await kafka.create_topic(topic, 1, 1)
    async with broker:
        for number, article in enumerate(["espresso", "cappuccino", "espresso"]):
            await broker.publish({"customer": f"c-{number}", "article": article}, "coffee-orders")
    service = request.getfixturevalue("service")
    found = await read(kafka, "coffee-invoices", 3)
    assert [each.key() for each in found] == [b"c-0", b"c-1", b"c-2"]
    assert [content(each)["cents"] for each in found] == [250, 380, 250]
    service.send_signal(signal.SIGTERM)
    assert service.wait(PATIENCE) == 0
    assert "Traceback" not in service.stderr.read()
