"""A consumer's metrics on the wire. These brokers answer no JoinGroup: telemetry waits for none."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.consumer import Consumer
from aioproducer.engine.telemetry.subscription import is_sum
from aioproducer.errors import (
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    UnsupportedVersionError,
)
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
