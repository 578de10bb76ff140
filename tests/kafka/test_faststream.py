"""FastStream publishes by this project's core to real brokers, also in transactions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as ConfluentPartition
from faststream.kafka import KafkaBroker, KafkaResponse, TestKafkaBroker
from faststream.kafka.subscriber.usecase import LogicSubscriber
from faststream.middlewares import AckPolicy

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.compat.faststream import exactly_once, use_aioproducer
from aioproducer.errors import GroupIdNotFoundError
from aioproducer.model import TopicPartition
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.processes import ProcessSupervisor
from tests.kafka.transactional import committed, visible
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


EXAMPLE = Path(__file__).parents[2] / "examples" / "faststream_app.py"
PATIENCE = 60.0


async def read(cluster: KafkaCluster, topic: str, count: int, partitions: int = 1) -> list[Message]:
    return await asyncio.to_thread(read_blocking, cluster, topic, count, partitions)


def read_blocking(cluster: KafkaCluster, topic: str, count: int, partitions: int) -> list[Message]:
    """The first ``count`` records of a topic, those of a partition in their order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        consumer.assign([ConfluentPartition(topic, number, 0) for number in range(partitions)])
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


SERVICE = Path(__file__).with_name("faststream_biller.py")
LONG_PATIENCE = 240.0
ORDERS = 200
PARTITIONS = 4
NAMES = ("a", "b")


def made(cluster: KafkaCluster) -> KafkaBroker:
    return use_aioproducer(KafkaBroker(cluster.bootstrap_servers.split(","), logger=None))


def subscriber(broker: KafkaBroker, topic: str, **options: Any) -> LogicSubscriber[Any]:
    made: LogicSubscriber[Any] = exactly_once(
        broker.subscriber(
            topic,
            group_id=topic,
            ack_policy=AckPolicy.NACK_ON_ERROR,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            **options,
        ),
        transactional_id=f"{topic}-1",
    )
    return made


async def topics(cluster: KafkaCluster, *names: str, partitions: int = 1) -> None:
    for name in names:
        await cluster.create_topic(name, partitions, 3)


async def write(cluster: KafkaCluster, topic: str, values: list[bytes]) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % PARTITIONS if len(values) > 9 else 0)


async def committed_offset(cluster: KafkaCluster, group: str) -> int | None:
    """The committed offset of the topic that is named as its group."""
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with suppress(GroupIdNotFoundError):
            found = (await admin.group_offsets(group)).get(TopicPartition(group, 0))
            return None if found is None else found.offset
    return None


async def shares(cluster: KafkaCluster, group: str, members: int) -> bool:
    """As many members share the group's partitions."""
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with suppress(GroupIdNotFoundError):
            found = (await admin.describe_groups(group))[group].members
            return len([member for member in found if member.partitions]) == members
    return False


async def reaches(asking: Callable[[], Awaitable[Any]], value: Any, what: str) -> None:
    async def does() -> bool:
        return bool(await asking() == value)

    await until(does, what, LONG_PATIENCE)


async def test_a_failed_handler_leaves_nothing_and_runs_again(transactional: KafkaCluster) -> None:
    await topics(transactional, "fs-fails", "fs-fails-notes", "fs-fails-out")
    broker, calls = made(transactional), []

    @subscriber(broker, "fs-fails")
    @broker.publisher("fs-fails-out")
    async def bill(order: str) -> str:
        calls.append(order)
        await broker.publish(f"note {len(calls)} of {order}", "fs-fails-notes")
        if len(calls) == 1:
            raise ValueError("the first attempt fails")
        return f"invoice of {order}"

    await write(transactional, "fs-fails", [b"one", b"two"])
    async with broker:
        await broker.start()
        await reaches(lambda: committed_offset(transactional, "fs-fails"), 2, "both are handled")
    assert calls == ["one", "one", "two"]
    assert await committed(transactional, "fs-fails-notes") == [b"note 2 of one", b"note 3 of two"]
    assert await committed(transactional, "fs-fails-out") == [b"invoice of one", b"invoice of two"]
    everything = await visible(transactional, "fs-fails-notes", isolation="read_uncommitted")
    assert b"note 1 of one" in everything


async def test_a_cancelled_handler_leaves_nothing(transactional: KafkaCluster) -> None:
    await topics(transactional, "fs-stop", "fs-stop-notes")
    broker, published = made(transactional), asyncio.Event()
    broker.config.broker_config.graceful_timeout = 0.1

    @subscriber(broker, "fs-stop")
    async def bill(order: str) -> None:
        await broker.publish(f"note of {order}", "fs-stop-notes")
        published.set()
        await asyncio.Event().wait()

    await write(transactional, "fs-stop", [b"one"])
    async with broker:
        await broker.start()
        await asyncio.wait_for(published.wait(), LONG_PATIENCE)
        await broker.publish("outside", "fs-stop-notes")
    assert await committed(transactional, "fs-stop-notes") == [b"outside"]
    assert await committed_offset(transactional, "fs-stop") is None


async def test_a_batch_is_one_transaction(transactional: KafkaCluster) -> None:
    await topics(transactional, "fs-batch", "fs-batch-out")
    broker, sizes = made(transactional), []

    @subscriber(broker, "fs-batch", batch=True, max_records=5)
    @broker.publisher("fs-batch-out", batch=True)
    async def bill(orders: list[str]) -> list[str]:
        sizes.append(len(orders))
        if len(sizes) == 1:
            raise ValueError("the first attempt fails")
        return [f"invoice of {order}" for order in orders]

    await write(transactional, "fs-batch", [b"order %d" % number for number in range(8)])
    async with broker:
        await broker.start()
        await reaches(lambda: committed_offset(transactional, "fs-batch"), 8, "all are handled")
    assert max(sizes) <= 5
    assert sum(sizes) == 8 + sizes[0]
    expected = [b"invoice of order %d" % number for number in range(8)]
    assert await committed(transactional, "fs-batch-out") == expected


async def test_workers_have_transactions_of_their_own(transactional: KafkaCluster) -> None:
    await topics(transactional, "fs-workers", "fs-workers-out", partitions=PARTITIONS)
    broker, busy, together = made(transactional), set[str](), asyncio.Event()

    @subscriber(broker, "fs-workers", max_workers=2)
    @broker.publisher("fs-workers-out")
    async def bill(order: str) -> str:
        busy.add(order)
        if len(busy) > 1:  # two handlers at the same time
            together.set()
        try:
            await asyncio.wait_for(together.wait(), LONG_PATIENCE)
        finally:
            busy.discard(order)
        return f"invoice of {order}"

    async with broker:
        await broker.start()
        # A member that is alone has all partitions, and keeps them as long as its handler waits.
        await reaches(lambda: shares(transactional, "fs-workers", 2), True, "both work")
        await write(transactional, "fs-workers", [b"order %d" % number for number in range(12)])
        expected = sorted(b"invoice of order %d" % number for number in range(12))
        await reaches(lambda: visible(transactional, "fs-workers-out"), expected, "all are handled")


async def disturb(
    services: dict[str, subprocess.Popen[bytes]],
    start: Callable[[str], subprocess.Popen[bytes]],
    children: ProcessSupervisor,
    random: Random,
) -> None:
    for _ in range(8):
        await asyncio.sleep(random.uniform(0.5, 3.0))
        name = random.choice(NAMES)
        await asyncio.to_thread(children.kill, services[name])
        services[name] = start(name)


@pytest.mark.slow
async def test_services_are_killed_in_their_handlers(
    transactional: KafkaCluster, tmp_path: Path
) -> None:
    await topics(transactional, "fs-orders", "fs-notes", "fs-invoices", partitions=PARTITIONS)
    await write(transactional, "fs-orders", [b"%d" % number for number in range(ORDERS)])
    seed = SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    with ProcessSupervisor() as children:

        def start(name: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, str(SERVICE), transactional.bootstrap_servers, name]
            with (tmp_path / f"{name}.log").open("ab") as log:
                return children.start(command, stdout=log, stderr=log)

        services = {name: start(name) for name in NAMES}
        await disturb(services, start, children, Random(seed))

        async def all_handled() -> bool:
            return len(await visible(transactional, "fs-invoices")) >= ORDERS

        await until(all_handled, "all orders are handled", LONG_PATIENCE)
        for service in services.values():
            assert await asyncio.to_thread(children.stop, service, LONG_PATIENCE) == 0
    for topic, kind in (("fs-invoices", "invoice"), ("fs-notes", "note")):
        counts = Counter(await committed(transactional, topic))
        assert counts == Counter(f"{kind} {number}".encode() for number in range(ORDERS))
    aborted = len(await visible(transactional, "fs-notes", isolation="read_uncommitted")) - ORDERS
    print(f"{aborted} notes of aborted transactions")
    assert aborted > 0
