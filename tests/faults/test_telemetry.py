"""Telemetry of producers and consumers before brokers that are absurd, silent or huge about it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from aioproducer import Producer
from aioproducer.config import ProducerConfig
from aioproducer.consumer import Consumer
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.engine.telemetry import requester
from aioproducer.engine.telemetry.subscription import (
    DEFAULT_INTERVAL,
    GetTelemetrySubscriptionsRequest,
    Subscription,
    is_sum,
)
from aioproducer.errors import (
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    ProducerTimeoutError,
    UnsupportedVersionError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.reader import Reader
from tests.support.fake_kafka.telemetry import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
    FakeTelemetry,
)
from tests.support.waiting import until
from tests.unit.telemetry.snapshots import points

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka


SENT = "org.apache.kafka.producer.record.send.total"
SENT_BY_TOPIC = "org.apache.kafka.producer.topic.record.send.total"
I32 = some.integers(-(2**31), 2**31 - 1)
PATIENCE = 30.0


def read(**values: Any) -> Subscription:
    """The subscription in a response with these values."""
    usual: dict[str, Any] = {
        "client_instance_id": UUID(int=1),
        "subscription_id": 1,
        "accepted_compression_types": (4,),
        "push_interval_ms": 1000,
        "telemetry_max_bytes": 1000,
        "delta_temporality": True,
        "requested_metrics": ("",),
    }
    response = response_schema(Api.GET_TELEMETRY_SUBSCRIPTIONS).of(usual | values, 0)
    return GetTelemetrySubscriptionsRequest(None).read(response).subscription


@given(interval=I32)
def test_every_interval_is_bounded(interval: int) -> None:
    found = read(push_interval_ms=interval).interval
    assert found >= 0.1
    assert found == (DEFAULT_INTERVAL if interval <= 0 else max(interval / 1000, 0.1))


@given(max_bytes=I32, codecs=some.lists(some.integers(-128, 127), max_size=100))
def test_every_limit_and_every_codec_is_taken(max_bytes: int, codecs: list[int]) -> None:
    found = read(telemetry_max_bytes=max_bytes, accepted_compression_types=tuple(codecs))
    assert found.max_bytes > 0
    assert len(found.codecs) <= 16


def test_of_a_million_prefixes_the_first_ten_thousand_are_looked_at() -> None:
    others = [f"org.apache.kafka.producer.{number}" for number in range(1_000_000)]
    ours = "org.apache.kafka.producer.record.send."
    assert read(requested_metrics=(*others[:9_999], ours, *others)).selection
    assert read(requested_metrics=(*others[:10_000], ours, *others)).selection == frozenset()


# --- on the wire ------------------------------------------------------------------------------


async def test_counts_since_the_start_where_the_broker_wants_them(start_kafka: StartKafka) -> None:
    telemetry = FakeTelemetry(delta=False)
    kafka = await start_kafka(1, {"orders": 1}, telemetry=telemetry)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.client_instance_id()
        for _ in range(3):
            await producer.send("orders", b"value")
            seen = len(telemetry.pushes)
            await kafka.until_received(PUSH_TELEMETRY, seen + 2)
    found = [p for data in telemetry.metrics() for p in points(data) if p.name == SENT]
    assert {point.kind for point in found} == {"cumulative"}
    assert len({point.start_ns for point in found}) == 1
    values = [point.value for point in found]
    assert values == sorted(values)
    assert values[-1] == 3


@pytest.mark.parametrize(
    "absurd",
    [
        {"interval_ms": 0},
        {"interval_ms": -(2**31)},
        {"interval_ms": 2**31 - 1},
        {"max_bytes": 1},
        {"max_bytes": -1},
        {"codecs": ()},
        {"codecs": (99, -1, 100)},
        {"instance_id": None},
        {"prefixes": ("", "", "\u2603" * 1000)},
        {"prefixes": tuple(str(number) for number in range(50_000))},
    ],
)
async def test_absurd_subscriptions(absurd: dict[str, Any], start_kafka: StartKafka) -> None:
    telemetry = FakeTelemetry(**absurd)
    kafka = await start_kafka(1, {"orders": 1}, telemetry=telemetry)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    if telemetry.instance_id is None:
        with pytest.raises(ProducerTimeoutError):
            await producer.client_instance_id(0.2)
    else:
        assert await producer.client_instance_id(PATIENCE) == telemetry.instance_id
    for _ in range(20):
        await producer.send("orders", b"value")
    began = time.monotonic()
    assert await producer.close() == 0
    assert time.monotonic() - began < 5
    asked = len(kafka.requests(GET_TELEMETRY_SUBSCRIPTIONS))
    selects_nothing = telemetry.prefixes[0] == "0"  # it is asked for again after each interval
    assert asked == 1 or telemetry.instance_id is None or selects_nothing
    assert all(len(push.metrics) <= max(telemetry.max_bytes, 1 << 20) for push in telemetry.pushes)
    if absurd.keys() & {"interval_ms", "codecs"}:
        assert telemetry.pushes[-1].terminating


async def test_the_broker_names_a_limit_and_thousands_of_topics_do_not_fit(
    start_kafka: StartKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requester, "TERMINATION_SECONDS", PATIENCE)
    topics = {f"topic-{number}": 1 for number in range(300)}
    telemetry = FakeTelemetry(codecs=(), max_bytes=20_000, interval_ms=60_000)
    kafka = await start_kafka(1, topics, telemetry=telemetry)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await asyncio.gather(*(producer.send(topic, b"value") for topic in topics))
        await producer.client_instance_id()
    (data,) = telemetry.metrics()
    assert len(data) <= 20_000
    names = {point.name for point in points(data)}
    assert SENT in names
    assert SENT_BY_TOPIC not in names


async def test_deltas_of_refused_pushes_are_in_the_next_one(start_kafka: StartKafka) -> None:
    codes = [int(ErrorCode.THROTTLING_QUOTA_EXCEEDED), int(ErrorCode.TELEMETRY_TOO_LARGE)]
    telemetry = FakeTelemetry(codes=deque(codes))
    kafka = await start_kafka(1, {"orders": 1}, telemetry=telemetry)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.client_instance_id()
        while len(telemetry.pushes) < 3:
            await producer.send("orders", b"value")
            await asyncio.sleep(0.01)
    deltas = [p.value for data in telemetry.metrics() for p in points(data) if p.name == SENT]
    assert sum(deltas) == len(kafka.values("orders"))


async def test_a_huge_subscription_ends_its_connection_alone(start_kafka: StartKafka) -> None:
    prefix = "org.apache.kafka.producer."
    telemetry = FakeTelemetry(prefixes=tuple(f"{prefix}{number}" for number in range(50_000)))
    kafka = await start_kafka(1, {"orders": 1}, telemetry=telemetry)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        waiting = asyncio.create_task(producer.client_instance_id(PATIENCE))
        await kafka.until_received(GET_TELEMETRY_SUBSCRIPTIONS, 2)  # the first answer was refused
        with pytest.raises(ProducerTimeoutError, match=r"a telemetry subscription of 1\d* bytes"):
            await producer.client_instance_id(0.3)
        telemetry.prefixes = ("",)
        assert (await producer.send("orders", b"value")).offset == 0
        assert await waiting == telemetry.instance_id


async def test_a_broker_that_does_not_answer_telemetry(start_kafka: StartKafka) -> None:
    """The connection ends when its time is over, and the records go on with the next one."""
    kafka = await start_kafka(1, {"orders": 1}, telemetry=FakeTelemetry())
    kafka.mute = {GET_TELEMETRY_SUBSCRIPTIONS}
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=300
    ) as producer:
        waiting = asyncio.create_task(producer.client_instance_id(PATIENCE))
        await kafka.until_received(GET_TELEMETRY_SUBSCRIPTIONS)
        for _ in range(5):
            await producer.send("orders", b"value")
        await kafka.until_received(GET_TELEMETRY_SUBSCRIPTIONS, 2)
        kafka.mute = set()
        while not waiting.done():
            await producer.send("orders", b"value")
            await asyncio.sleep(0.01)
        await waiting


JOIN_GROUP = 11
CONNECTIONS = "org.apache.kafka.consumer.connection.creation.total"


def reading(kafka: FakeKafka, **options: Any) -> Consumer:
    return Consumer("orders", group_id="g", bootstrap_servers=kafka.bootstrap_servers, **options)


async def started(
    start_kafka: StartKafka, brokers: int = 1, telemetry: FakeTelemetry | None = None
) -> FakeKafka:
    kafka = await start_kafka(
        brokers, {"orders": 1}, versions={JOIN_GROUP: (0, 5)}, telemetry=telemetry
    )
    kafka.mute = {JOIN_GROUP}
    return kafka


async def pushes(telemetry: FakeTelemetry, count: int) -> None:
    await until(lambda: len(telemetry.pushes) >= count, f"{count} pushes")


async def test_pushes_follow_the_subscription_and_the_last_one_comes_at_the_end(
    start_kafka: StartKafka,
) -> None:
    telemetry = FakeTelemetry()
    kafka = await started(start_kafka, 2, telemetry)
    async with reading(kafka) as consumer:
        assert await consumer.client_instance_id() == telemetry.instance_id
        await pushes(telemetry, 2)
        opened = consumer.metrics()["consumer-metrics"]["connection-creation-total"]
    assert [each.terminating for each in telemetry.pushes[:-1]] == [False] * (
        len(telemetry.pushes) - 1
    )
    assert telemetry.pushes[-1].terminating
    assert len(kafka.requests(GET_TELEMETRY_SUBSCRIPTIONS)) == 1
    found = [point for data in telemetry.metrics() for point in points(data)]
    assert opened >= 1
    assert sum(point.value for point in found if point.name == CONNECTIONS) >= opened
    assert {point.kind for point in found if point.name == CONNECTIONS} == {"delta"}
    for point in found:
        assert (point.kind != "gauge") == is_sum(point.name.replace(".", "-"))


async def test_the_first_request_comes_by_itself(start_kafka: StartKafka) -> None:
    telemetry = FakeTelemetry()
    kafka = await started(start_kafka, 1, telemetry)
    async with reading(kafka):
        await pushes(telemetry, 1)


async def test_nothing_is_asked_while_it_is_off(start_kafka: StartKafka) -> None:
    kafka = await started(start_kafka, 1, FakeTelemetry())
    shared = ProducerConfig(bootstrap_servers=kafka.bootstrap_servers, enable_metrics_push=False)
    for consumer in (
        reading(kafka, enable_metrics_push=False),
        Consumer("orders", group_id="g", config=shared),
    ):
        async with consumer:
            with pytest.raises(IllegalStateError, match="enable_metrics_push is False"):
                await consumer.client_instance_id()
            await asyncio.sleep(1.2)
    assert kafka.requests(GET_TELEMETRY_SUBSCRIPTIONS) == []
    with pytest.raises(ConfigError, match="enable_metrics_push"):
        Reader("orders", bootstrap_servers="localhost:9092", enable_metrics_push=False)


async def test_brokers_without_telemetry(start_kafka: StartKafka) -> None:
    kafka = await started(start_kafka)
    async with reading(kafka) as consumer:
        with pytest.raises(UnsupportedVersionError, match=r"metric\.reporters"):
            await consumer.client_instance_id(10)


async def test_a_broker_that_answers_no_push_does_not_hold_up_the_end(
    start_kafka: StartKafka,
) -> None:
    telemetry = FakeTelemetry()
    kafka = await started(start_kafka, 1, telemetry)
    consumer = reading(kafka)
    await consumer.start()
    await consumer.client_instance_id()
    await pushes(telemetry, 1)
    kafka.mute |= {PUSH_TELEMETRY}
    began = time.monotonic()
    await consumer.close()
    assert 0.9 < time.monotonic() - began < 4
    assert len(kafka.requests(PUSH_TELEMETRY)) == len(telemetry.pushes) + 1


async def test_a_caller_that_waits_for_the_id_hears_of_the_close(start_kafka: StartKafka) -> None:
    kafka = await started(start_kafka, 1, FakeTelemetry())
    kafka.mute |= {GET_TELEMETRY_SUBSCRIPTIONS}
    consumer = reading(kafka)
    await consumer.start()
    waiting = asyncio.create_task(consumer.client_instance_id(30))
    await kafka.until_received(GET_TELEMETRY_SUBSCRIPTIONS)
    await consumer.close()
    with pytest.raises(ClientClosedError):
        await waiting
