"""Clients while another cluster, or another broker, answers at an address."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from aioproducer import DeliveryTimeoutError, Producer
from aioproducer.errors import FatalTransactionError
from aioproducer.model import TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing import SimulatedWorld, simulate
from aioproducer.testing.simulation.kafka.cluster import Cluster
from aioproducer.testing.simulation.kafka.requests import apis
from tests.support.simulated_world import (
    ONE,
    ZERO,
    consumer,
    each_protocol,
    fill,
    live,
    model_of,
    network_of,
)

TOPICS = {"orders": 6}


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls that let brokers, which do not check connections, belong to another cluster."""
    old = {**apis.RANGES, 18: (0, 4)}
    monkeypatch.setattr(apis, "RANGES", old)
    return lambda name: monkeypatch.setattr(Cluster, "id", name)


@pytest.mark.parametrize("seed", range(4))
def test_a_transactional_producer_goes_on_when_its_cluster_is_back(
    seed: int, replaced: Any
) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.set_latency(0.05)
        world.at(2, lambda: replaced("another"))
        world.at(4, lambda: replaced("simulated"))
        servers = world.cluster.bootstrap_servers
        async with Producer(
            bootstrap_servers=servers,
            metadata_max_age_ms=500,
            transactional_id="t",
            metadata_recovery_strategy="same_cluster",
        ) as producer:
            for number in range(40):
                async with producer.transaction():
                    future = producer.send("orders", b"%d" % number)
                    await asyncio.sleep(0.1)
                await future

    simulate(life, seed=seed, topics=TOPICS)


@pytest.mark.parametrize("seed", range(4))
def test_records_in_flight_are_not_refused_with_the_other_cluster(seed: int, replaced: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.set_latency(0.02)
        world.at(1, lambda: replaced("another"))
        world.at(3, lambda: replaced("simulated"))
        servers = world.cluster.bootstrap_servers
        async with Producer(
            bootstrap_servers=servers,
            metadata_max_age_ms=200,
            linger_ms=40,
            metadata_recovery_strategy="same_cluster",
        ) as producer:
            futures = []
            for number in range(500):
                futures.append(producer.send("orders", b"%d" % number))
                await asyncio.sleep(0.01)
            await asyncio.gather(*futures)

    simulate(life, seed=seed, topics=TOPICS, brokers=1)


def test_a_cluster_that_was_replaced_is_named_by_health_and_errors(replaced: Any) -> None:
    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        async with Producer(
            bootstrap_servers=servers,
            metadata_max_age_ms=500,
            delivery_timeout_ms=20_000,
            request_timeout_ms=5_000,
            metadata_recovery_strategy="same_cluster",
        ) as producer:
            await producer.send("orders", b"ours")
            replaced("another")
            await asyncio.sleep(2)
            late = producer.send("orders", b"nobody's")
            await asyncio.sleep(2)
            health = producer.health()
            assert "same_cluster" in str(health)
            assert health.is_live, "its cluster may come back"
            with pytest.raises(DeliveryTimeoutError, match="belongs to cluster 'another'"):
                await late

    simulate(life, topics=TOPICS)


def naming_both(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno == logging.WARNING
        and "'another'" in each.getMessage()
        and "'simulated'" in each.getMessage()
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_producer_follows_the_cluster_that_answers(
    seed: int, replaced: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        world.cluster.set_latency(0.02)
        world.at(1, lambda: replaced("another"))
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers, metadata_max_age_ms=200) as producer:
            futures = []
            for number in range(300):
                futures.append(producer.send("orders", b"%d" % number))
                await asyncio.sleep(0.01)
            await asyncio.gather(*futures)
            assert producer.health().is_ready

    simulate(life, seed=seed, topics=TOPICS)
    assert len(naming_both(caplog)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_transaction_ends_with_its_cluster(seed: int, replaced: Any) -> None:
    async def transactions(producer: Producer) -> None:
        while True:
            async with producer.transaction():
                producer.send("orders", b"")
                await asyncio.sleep(0.1)

    async def life(world: SimulatedWorld) -> None:
        servers = world.cluster.bootstrap_servers
        world.at(2, lambda: replaced("another"))
        async with Producer(
            bootstrap_servers=servers, metadata_max_age_ms=500, transactional_id="t"
        ) as producer:
            with pytest.raises(FatalTransactionError, match="'another' answers instead of"):
                await transactions(producer)
            health = producer.health()
            assert not health.is_live
            assert "'another'" in health.reason

    simulate(life, seed=seed, topics=TOPICS)


@each_protocol
@pytest.mark.parametrize("seed", range(2))
def test_a_consumer_joins_its_group_in_the_other_cluster(
    protocol: str, seed: int, replaced: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        joined: list[Collection[TopicPartition]] = []
        lost: list[Collection[TopicPartition]] = []
        reader = consumer(
            world,
            group_protocol=protocol,
            metadata_max_age_ms=1_000,
            on_assigned=joined.append,
            on_lost=lost.append,
        )
        async with reader:
            read = 0
            async for _ in reader:
                read += 1
                if read == 20:
                    replaced("another")
                    await asyncio.sleep(5)
                if read >= 40 and lost:
                    break
            assert reader.health().is_ready
            assert [set(each) for each in lost] == [{ZERO, ONE}]
            assert len(joined) == 2

    live(life, 2, seed=seed)
    assert len(naming_both(caplog)) == 1


def test_a_reader_goes_on_in_the_other_cluster(
    replaced: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def life(world: SimulatedWorld) -> None:
        await fill(world, 40, 2)
        servers = world.cluster.bootstrap_servers
        async with Reader("orders", bootstrap_servers=servers, metadata_max_age_ms=1_000) as reader:
            read = []
            async for record in reader:
                read.append((record.partition, record.offset))
                if len(read) == 20:
                    replaced("another")
                    await asyncio.sleep(5)
                if len(read) == 40:
                    await fill(world, 2, 2)
                if len(read) == 42:
                    break
            assert len(set(read)) == 42

    live(life, 2)
    assert len(naming_both(caplog)) == 1


def test_brokers_at_the_right_addresses_keep_their_pace() -> None:
    """Eight of ten brokers have exchanged their addresses."""

    async def life(world: SimulatedWorld, swapped: range) -> Counter[float]:
        world.cluster.set_latency(0.01)
        model, network = model_of(world), network_of(world)
        seconds: Counter[float] = Counter()
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            async with asyncio.timeout(30):
                for number in range(100):  # it knows all brokers
                    await producer.send("wide", b"", partition=number % 10)
            at_home = next(n for n in range(10) if world.cluster.leader("wide", n) == 10)
            for broker in swapped:
                network.swap(model.host(broker), model.host(broker + 1))
                world.cluster.cut(broker)
                world.cluster.cut(broker + 1)
            elsewhere = [
                producer.send("wide", b"", partition=number)
                for number in range(10)
                if number != at_home
            ]
            loop = asyncio.get_running_loop()
            for _ in range(300):
                began = loop.time()
                await producer.send("wide", b"", partition=at_home)
                seconds[round(loop.time() - began, 2)] += 1
                await asyncio.sleep(0.01)
            for broker in swapped:
                network.swap(model.host(broker), model.host(broker + 1))
            await asyncio.gather(*elsewhere)
        return seconds

    def slow(swapped: range) -> int:
        found = simulate(
            lambda world: life(world, swapped), topics={"wide": 10}, brokers=10, seed=3
        )
        return sum(times for seconds, times in found.items() if seconds >= 0.1)

    assert slow(range(1, 9, 2)) <= slow(range(0)) + 3
