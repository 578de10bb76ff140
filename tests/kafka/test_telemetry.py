"""Metrics that a real broker asks for, as its own plugin gets them (KIP-714)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import isfinite

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.engine.records.compression import compression
from aioproducer.engine.telemetry import payload_maker
from aioproducer.errors import UnsupportedVersionError
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.telemetry import JAVA, Push, TelemetryKafka, telemetry_kafka
from tests.support.waiting import until
from tests.unit.consumer.test_consumer_metrics import REQUIRED as REQUIRED_OF_CONSUMERS
from tests.unit.telemetry.test_payload import REQUIRED

pytestmark = pytest.mark.kafka

DOMAIN = "org.apache.kafka.producer"
SENT = f"{DOMAIN}.record.send.total"
SENT_BY_TOPIC = f"{DOMAIN}.topic.record.send.total"
ALL = "*"
SOON = 300
"""Milliseconds from push to push."""
LATER = 300_000
"""Nothing but the last push comes in a test."""
OF_JAVA_ALONE = {
    "org.apache.kafka.app.info.start.time.ms",
    "org.apache.kafka.kafka.count.count",
    f"{DOMAIN}.io.ratio",
    f"{DOMAIN}.io.time.ns.avg",
    f"{DOMAIN}.io.time.ns.total",
    f"{DOMAIN}.io.wait.ratio",
    f"{DOMAIN}.io.wait.time.ns.avg",
    f"{DOMAIN}.io.wait.time.ns.total",
    f"{DOMAIN}.select.rate",
    f"{DOMAIN}.select.total",
    f"{DOMAIN}.successful.authentication.no.reauth.total",
    f"{DOMAIN}.txn.prepare.time.ns.total",
}
"""Metrics of its I/O thread, of two-phase commit, and of the JVM's registry."""
OF_OURS_ALONE = r"\.(broker|record\.wait)\.time\.|\.record\.latency\.|\.node\.record\.|\.p\d+$"
"""Percentiles, parts of the latency, and errors by node."""
OF_OUR_CONSUMER_ALONE = {
    "org.apache.kafka.consumer.coordinator.failed.commit.total",
    "org.apache.kafka.consumer.coordinator.heartbeat.response.time.avg",
    "org.apache.kafka.consumer.coordinator.uses.consumer.protocol",
}
TOPICS = ["orders", "events", *(f"topic-{number}" for number in range(20))]


@pytest.fixture(scope="module")
def broker(
    kafka_distribution: KafkaDistribution, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TelemetryKafka]:
    with telemetry_kafka(kafka_distribution, tmp_path_factory.mktemp("telemetry")) as kafka:
        for topic in TOPICS:  # no record is sent twice because its topic is new
            asyncio.run(kafka.cluster.create_topic(topic))
        yield kafka


def sent(pushes: list[Push]) -> Counter[str]:
    """The records by topic: the deltas of all pushes."""
    total: Counter[str] = Counter()
    for push in pushes:
        for point in push.points:
            if point.name == SENT_BY_TOPIC:
                assert point.kind == "delta"
                total[point.attributes["topic"]] += int(point.value)
    return total


async def test_pushes_come_at_the_interval_and_have_what_was_sent(broker: TelemetryKafka) -> None:
    await broker.subscribe("regular", ALL, SOON)
    async with Producer(bootstrap_servers=broker.servers, client_id="regular") as producer:
        for topic, count in (("orders", 30), ("events", 12)):
            await asyncio.gather(*(producer.send(topic, b"value") for _ in range(count)))
        instance_id = await producer.client_instance_id()
        await broker.has_pushes(instance_id, 3)
        await asyncio.gather(*(producer.send("orders", b"more") for _ in range(5)))
        counted = len(broker.pushes(instance_id))
        pushes = await broker.has_pushes(instance_id, counted + 2)
        assert not any(push.last for push in pushes)
        assert sum(push.value(SENT) for push in pushes) == 47
        assert sent(pushes) == {"orders": 35, "events": 12}
        await producer.send("events", b"the last one")
        snapshot = producer.metrics()["producer-metrics"]
        assert await producer.client_instance_id(0) == instance_id
    pushes = broker.pushes(instance_id)
    assert [push.last for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert sent(pushes) == {"orders": 35, "events": 13}
    assert {push.client_id for push in pushes} == {"regular"}
    for earlier, later in pairwise(pushes[:-1]):
        assert later.at - earlier.at > 0.9 * SOON / 1000
    starts = [[p.start_ns for p in push.points if p.name == SENT] for push in pushes[1:]]
    ends = [[p.time_ns for p in push.points if p.name == SENT] for push in pushes[:-1]]
    assert starts == ends
    last = pushes[-1]
    assert last.value(f"{DOMAIN}.buffer.total.bytes") == snapshot["buffer-total-bytes"]
    assert last.value(f"{DOMAIN}.record.size.max") == snapshot["record-size-max"]


async def test_another_subscription_takes_effect(broker: TelemetryKafka) -> None:
    await broker.subscribe("changing", SENT, SOON)
    async with Producer(bootstrap_servers=broker.servers, client_id="changing") as producer:
        await producer.send("orders", b"value")
        instance_id = await producer.client_instance_id()
        pushes = await broker.has_pushes(instance_id, 1)
        assert {point.name for push in pushes for point in push.points} == {SENT}
        await broker.subscribe("changing", f"{DOMAIN}.record.queue.,{DOMAIN}.node.", SOON)

        def names() -> set[str]:
            return {point.name for point in broker.pushes(instance_id)[-1].points}

        await until(lambda: f"{DOMAIN}.record.queue.time.avg" in names(), "the other metrics")
        assert SENT not in names()
        assert f"{DOMAIN}.node.request.latency.avg" in names()
        assert await producer.client_instance_id() == instance_id


async def test_a_subscription_that_comes_later_is_noticed(broker: TelemetryKafka) -> None:
    await broker.subscribe("patient", "", SOON)
    async with Producer(bootstrap_servers=broker.servers, client_id="patient") as producer:
        await producer.send("orders", b"value")
        instance_id = await producer.client_instance_id()
        await broker.subscribe("patient", SENT, SOON)
        pushes = await broker.has_pushes(instance_id, 1)
        assert pushes[0].value(SENT) == 1


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_the_broker_unpacks_every_codec(
    name: str, broker: TelemetryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = compression(name)
    monkeypatch.setattr(payload_maker, "first_available", lambda *_: chosen)
    await broker.subscribe(f"codec-{name}", ALL, LATER)
    async with Producer(bootstrap_servers=broker.servers, client_id=f"codec-{name}") as producer:
        await asyncio.gather(*(producer.send(topic, b"value") for topic in TOPICS))
        instance_id = await producer.client_instance_id()
    (push,) = broker.pushes(instance_id)
    assert push.last
    assert sent([push]) == dict.fromkeys(TOPICS, 1)


async def test_names_and_attributes_are_those_of_kafkas_own_producer(
    broker: TelemetryKafka,
) -> None:
    await broker.subscribe("producer-1", ALL, LATER)
    async with Producer(bootstrap_servers=broker.servers, client_id="producer-1") as producer:
        for _ in range(5):
            await producer.send("orders", bytes(10))
        instance_id = await producer.client_instance_id()
    java = await broker.cluster.tool(
        str(JAVA / "PushMetrics.java"), *(broker.servers, "orders", "5"), timeout=60
    )
    assert java.returncode == 0, java.stderr
    (ours,), (theirs,) = broker.pushes(instance_id), broker.pushes(java.stdout.strip())
    assert ours.last
    assert theirs.last
    here, there = (
        {
            (p.name, p.kind, frozenset(p.attributes.items()))
            for p in push.points
            if isfinite(p.value)
        }
        for push in (ours, theirs)  # Java's has values that are no numbers, too
    )
    assert {name for name, _, _ in there - here} <= OF_JAVA_ALONE
    assert not [name for name, _, _ in here - there if not re.search(OF_OURS_ALONE, name)]
    assert {name for name, _, _ in here} >= REQUIRED
    assert len(here) == len(ours.points)
    assert ours.value(SENT) == 5
    assert theirs.value(SENT) in (4, 5), "Java's last push may overtake its last record"


async def test_names_and_attributes_are_those_of_kafkas_own_consumer(
    broker: TelemetryKafka,
) -> None:
    await broker.cluster.create_topic("consumed", 2)
    async with Producer(bootstrap_servers=broker.servers) as producer:
        for partition in range(2):
            await producer.send("consumed", b"value", partition=partition)
    await broker.subscribe("ours", ALL, LATER)
    await broker.subscribe("java", ALL, LATER)
    running = broker.cluster.tool(
        str(JAVA / "ConsumerMetrics.java"), *(broker.servers, "consumed", "2", "java"), timeout=60
    )
    async with asyncio.TaskGroup() as group:
        java_runs = group.create_task(running)
        async with Consumer(
            "consumed",
            group_id="ours",
            client_id="ours",
            bootstrap_servers=broker.servers,
            auto_offset_reset="earliest",
        ) as consumer:
            records = aiter(consumer)
            assert {(await anext(records)).partition for _ in range(2)} == {0, 1}
            await consumer.commit()
            instance_id = await consumer.client_instance_id()
    java = java_runs.result()
    assert java.returncode == 0, java.stderr
    (ours,), (theirs,) = broker.pushes(instance_id), broker.pushes(java.stdout.strip())
    assert ours.last
    assert theirs.last
    here, there = (
        {(p.name, p.kind, frozenset(p.attributes)) for p in push.points} for push in (ours, theirs)
    )
    assert {name for name, _, _ in here} >= REQUIRED_OF_CONSUMERS
    assert {name for name, _, _ in here - there} <= OF_OUR_CONSUMER_ALONE
    assert ours.value("org.apache.kafka.consumer.coordinator.assigned.partitions") == 2
    assert ours.value("org.apache.kafka.consumer.fetch.manager.records.consumed.total") == 2


async def test_brokers_without_a_plugin_are_not_asked(kafka: KafkaCluster) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send("without-telemetry", b"value")
        with pytest.raises(UnsupportedVersionError, match=r"metric\.reporters"):
            await producer.client_instance_id(10)
