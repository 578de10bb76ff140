"""The metrics of a consumer, their names in telemetry, and brokers that are slow with them."""

from __future__ import annotations

import asyncio
from math import isnan
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.consumer.metrics import consumer_groups
from aioproducer.engine.protocol import Api
from aioproducer.engine.telemetry.payload import Collector, Temporality, metrics_data
from aioproducer.engine.telemetry.subscription import selected, telemetry_name
from aioproducer.errors import UnknownMemberIdError
from aioproducer.testing import SimulatedWorld, simulate
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.cluster import ClusterOptions
from aioproducer.testing.simulation.kafka.requests.apis import HANDLERS
from tests.support.simulated_world import consumer, each_protocol, fill
from tests.unit.telemetry.snapshots import Point, finished, points

HEARTBEAT = 12
DOMAIN = "org.apache.kafka.consumer"
REQUIRED = {
    f"{DOMAIN}.connection.creation.rate",
    f"{DOMAIN}.connection.creation.total",
    f"{DOMAIN}.node.request.latency.avg",
    f"{DOMAIN}.node.request.latency.max",
    f"{DOMAIN}.poll.idle.ratio.avg",
    f"{DOMAIN}.coordinator.commit.latency.avg",
    f"{DOMAIN}.coordinator.commit.latency.max",
    f"{DOMAIN}.coordinator.assigned.partitions",
    f"{DOMAIN}.coordinator.rebalance.latency.avg",
    f"{DOMAIN}.coordinator.rebalance.latency.max",
    f"{DOMAIN}.coordinator.rebalance.latency.total",
    f"{DOMAIN}.fetch.manager.fetch.latency.avg",
    f"{DOMAIN}.fetch.manager.fetch.latency.max",
}
"""KIP-714: the metrics that every consumer has to provide."""


def reading(world: SimulatedWorld, **options: Any) -> Consumer:
    servers = world.cluster.bootstrap_servers
    return Consumer(
        "orders", group_id="g", bootstrap_servers=servers, auto_offset_reset="earliest", **options
    )


async def send_numbers(world: SimulatedWorld, records: int) -> None:
    async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        for number in range(records):
            await producer.send("orders", b"%d" % number, partition=number % 2)


def live(life: Any) -> None:
    simulate(life, topics={"orders": 2}, brokers=2)


def collected(snapshot: Any) -> list[Point]:
    groups = consumer_groups()
    steps = Collector(0, groups).collect(
        snapshot, selected([""], groups), Temporality.CUMULATIVE, 1
    )
    return points(metrics_data({}, ("aioproducer", "1"), finished(steps).groups.values()))


def test_the_required_metrics_have_names_and_values() -> None:
    groups = consumer_groups()
    names = {telemetry_name(groups[key], name) for key, name in selected([""], groups)}
    assert names >= REQUIRED

    async def life(world: SimulatedWorld) -> None:
        await send_numbers(world, 10)
        async with reading(world) as consumer:
            records = aiter(consumer)
            for _ in range(10):
                await anext(records)
            await consumer.commit()
            found = consumer.metrics()
        for key, group in groups.items():
            for values in group.members(found[key]).values():  # type: ignore[literal-required]
                assert [*values] == [*group.names], key
        taken = collected(found)
        assert {point.name for point in taken} >= REQUIRED
        lags = [each for each in taken if each.name == f"{DOMAIN}.fetch.manager.records.lag"]
        places = [each.attributes for each in lags]
        assert sorted(places, key=lambda place: place["partition"]) == [
            {"topic": "orders", "partition": "0"},
            {"topic": "orders", "partition": "1"},
        ]
        nodes = [each for each in taken if each.name == f"{DOMAIN}.node.request.total"]
        total = [each.value for each in taken if each.name == f"{DOMAIN}.request.total"]
        assert sum(each.value for each in nodes) == total[0] > 10
        assert {"node-1", "node-2"} <= {each.attributes["node_id"] for each in nodes}

    live(life)


def test_the_idle_ratio_is_the_time_that_the_application_waits() -> None:
    async def life(world: SimulatedWorld) -> None:
        await send_numbers(world, 2)
        async with reading(world) as consumer:

            def ratio() -> float:
                return consumer.metrics()["consumer-metrics"]["poll-idle-ratio-avg"]

            records = aiter(consumer)
            for _ in range(2):
                await anext(records)
            await asyncio.sleep(200)
            assert ratio() < 0.01
            waiting = asyncio.ensure_future(anext(records))
            await asyncio.sleep(200)
            assert ratio() > 0.99  # while it waits still
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.sleep(200)
            assert ratio() < 0.01

    live(life)


def test_latencies_are_those_of_requests_with_records() -> None:
    async def life(world: SimulatedWorld) -> None:
        async with reading(world) as consumer:
            assert isnan(consumer.metrics()["consumer-fetch-manager-metrics"]["fetch-latency-avg"])
            await asyncio.sleep(30)
            found = consumer.metrics()
        fetches = found["consumer-fetch-manager-metrics"]
        assert 400 < fetches["fetch-latency-avg"] <= fetches["fetch-latency-max"] < 1000
        by_node = [each["request-latency-max"] for each in found["consumer-node-metrics"].values()]
        known = [each for each in by_node if not isnan(each)]
        assert max(known) == fetches["fetch-latency-max"]
        assert len(known) < len(by_node)  # bootstrap servers are not fetched from

    live(life)


def test_the_payload_names_the_member() -> None:
    async def life(world: SimulatedWorld) -> None:
        options = {"group_instance_id": "one", "client_rack": "a"}
        for of_options in ({}, options):
            async with reading(world, **of_options) as consumer:
                telemetry = consumer._telemetry
                assert telemetry is not None
                maker = await telemetry._new_maker()
                assert maker._source.resource().get("group_member_id") is None
                await asyncio.sleep(10)
                assert maker._source.resource() == {
                    "group_id": "g",
                    "group_member_id": consumer.group_metadata.member_id,
                    **of_options,
                }

    live(life)


JAVA_NAMES = {
    "assigned-partitions",
    "commit-latency-avg",
    "commit-latency-max",
    "commit-rate",
    "commit-total",
    "failed-rebalance-rate-per-hour",
    "failed-rebalance-total",
    "heartbeat-rate",
    "heartbeat-response-time-max",
    "heartbeat-total",
    "join-rate",
    "join-time-avg",
    "join-time-max",
    "join-total",
    "last-heartbeat-seconds-ago",
    "last-rebalance-seconds-ago",
    "partition-assigned-latency-avg",
    "partition-assigned-latency-max",
    "partition-lost-latency-avg",
    "partition-lost-latency-max",
    "partition-revoked-latency-avg",
    "partition-revoked-latency-max",
    "rebalance-latency-avg",
    "rebalance-latency-max",
    "rebalance-latency-total",
    "rebalance-rate-per-hour",
    "rebalance-total",
    "sync-rate",
    "sync-time-avg",
    "sync-time-max",
    "sync-total",
}
"""Sources: Kafka's ``GroupCoordinatorMetrics``, ``ConsumerCoordinatorMetrics`` and
``RebalanceCallbackMetricsManager``."""


def test_the_metrics_of_the_coordinator_are_those_of_the_last_windows() -> None:
    async def life(world: SimulatedWorld) -> None:
        await send_numbers(world, 10)
        options = {"heartbeat_interval_ms": 1_000, "auto_commit": False}
        async with reading(world, **options) as consumer:

            def metrics() -> dict[str, float]:
                return consumer.metrics()["consumer-coordinator-metrics"]

            assert metrics().keys() >= JAVA_NAMES
            records = aiter(consumer)
            await anext(records)
            found = metrics()
            assert (found["join-total"], found["sync-total"], found["rebalance-total"]) == (1, 1, 1)
            # the group waits for others before its first generation
            assert found["join-time-max"] > 2_900
            assert found["sync-time-max"] < 100
            assert found["rebalance-latency-max"] > found["join-time-max"]
            world.cluster.set_latency(0.2)
            await consumer.commit()
            assert metrics()["commit-latency-max"] >= 400
            await asyncio.sleep(10)
            assert metrics()["heartbeat-response-time-max"] >= 400
            world.cluster.set_latency(0.001)
            await asyncio.sleep(200)
            found = metrics()
            assert found["heartbeat-response-time-max"] < 100, "the slow ones are past"
            assert found["heartbeat-rate"] > 0.5
            assert isnan(found["commit-latency-max"])
            assert isnan(found["rebalance-latency-avg"])
            assert (found["commit-rate"], found["rebalance-rate-per-hour"]) == (0, 0)
            assert (found["commit-total"], found["rebalance-total"]) == (1, 1)
            assert found["rebalance-latency-total"] > 2_900
            await anext(records)
            await consumer.commit()
            found = metrics()
            assert found["commit-latency-avg"] < 100
            assert found["commit-total"] == 2
            assert found["commit-rate"] > 0

    live(life)


def test_the_latencies_of_partitions_are_those_of_callbacks() -> None:
    async def life(world: SimulatedWorld) -> None:
        await send_numbers(world, 10)
        callbacks = {
            "on_assigned": lambda _: asyncio.sleep(1),
            "on_revoked": lambda _: asyncio.sleep(2),
            "on_lost": lambda _: asyncio.sleep(3),
        }
        async with reading(world, heartbeat_interval_ms=1_000, **callbacks) as consumer:

            def latency(name: str) -> float:
                metrics = consumer.metrics()["consumer-coordinator-metrics"]
                assert isnan(metrics[f"partition-{name}-latency-avg"]) == isnan(
                    metrics[f"partition-{name}-latency-max"]
                )
                return metrics[f"partition-{name}-latency-max"]

            await anext(aiter(consumer))
            assert latency("assigned") == pytest.approx(1_000, abs=1)
            assert isnan(latency("revoked"))
            await consumer.commit()
            async with reading(world):
                await asyncio.sleep(10)
            assert latency("revoked") == pytest.approx(2_000, abs=1)
            assert isnan(latency("lost"))
            world.cluster.fail_next(HEARTBEAT, UnknownMemberIdError)
            await asyncio.sleep(10)
            assert latency("lost") == pytest.approx(3_000, abs=1)

    live(life)


SLOW = 20.0
"""Seconds for a push; the session of the consumers is 10 s."""


class Broker:
    """The part of a broker that takes metrics."""

    def __init__(self) -> None:
        self.pushes = 0

    def push(self, call: Call) -> Answer:
        self.pushes += 1
        deadline = call.now + SLOW
        return Parked(lambda now: {"error_code": 0} if now >= deadline else None, deadline)


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setitem(HANDLERS, Api.PUSH_TELEMETRY, broker.push)
    return broker


@each_protocol
def test_a_slow_push_delays_no_heartbeat(protocol: str, telemetry: Broker) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 10, 1)
        async with consumer(world, group_protocol=protocol) as reader:
            ages: list[float] = []
            for _ in range(100):
                await asyncio.sleep(1)
                ages.append(reader.health().heartbeat_age or 0.0)
            assert telemetry.pushes > 2
            assert max(ages) < 6
            await reader.commit()
            found = reader.metrics()["consumer-coordinator-metrics"]
            assert found["failed-rebalance-total"] == 0
            began = world.now
        assert world.now - began < 5, "the last push is given up after a second"

    world = SimulatedWorld(0, 1, options=ClusterOptions(telemetry_interval_ms=1_000))
    world.cluster.create_topic("orders", 1)
    world._run(life(world), timeout=3_600)
