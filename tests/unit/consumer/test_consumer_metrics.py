"""The metrics of a consumer, and their names in telemetry."""

from __future__ import annotations

import asyncio
from math import isnan
from typing import Any

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.consumer.telemetry import consumer_groups
from aioproducer.engine.telemetry.collector import Collector
from aioproducer.engine.telemetry.metric_names import selected, telemetry_name
from aioproducer.engine.telemetry.otlp import Temporality, metrics_data
from aioproducer.testing import SimulatedWorld, simulate
from tests.unit.telemetry.snapshots import Point, finished, points

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


async def fill(world: SimulatedWorld, records: int) -> None:
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
        await fill(world, 10)
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
        await fill(world, 2)
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
