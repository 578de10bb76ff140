"""Health and metrics, sampled by another thread, beside what is done to real brokers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any, NamedTuple

import pytest

from aioproducer import Health, Producer
from aioproducer.engine.core.health import STALLED_AFTER, UNREACHABLE_AFTER
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BROKERS = (1, 2, 3)
PARTITIONS = 6
SEED = "AIOPRODUCER_CHAOS_SEED"
SLACK = 4.0
"""Seconds by which a busy machine may be late."""
EVERY = 0.02
"""Seconds between samples."""


@pytest.fixture(scope="module")
def cluster(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """Killed leaders are replaced after 3 s."""
    quick = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
    with KafkaCluster(brokers=3, config=quick) as cluster:
        yield cluster


class Sample(NamedTuple):
    at: float
    health: Health
    metrics: dict[str, float]
    delivered_at: float
    """The time of the last delivery before."""


@dataclass
class Outage:
    """A broker that was killed, and its restart."""

    broker: int
    killed: float
    restarting: float = float("inf")
    restarted: float = float("inf")


class Watch:
    """A load on all partitions, the samples of a thread, and the times of kills and restarts."""

    def __init__(self, cluster: KafkaCluster, producer: Producer, topic: str) -> None:
        self.cluster = cluster
        self.producer = producer
        self.topic = topic
        self.samples: list[Sample] = []
        self.outages: list[Outage] = []
        self.delivered_at = 0.0
        self.futures: list[asyncio.Future[Any]] = []
        self._done = threading.Event()

    def sample(self) -> None:
        while not self._done.wait(EVERY):
            delivered_at = self.delivered_at
            metrics: Any = self.producer.metrics()["producer-metrics"]
            health = self.producer.health()
            self.samples.append(Sample(time.monotonic(), health, metrics, delivered_at))

    async def send(self) -> None:
        def delivered(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                self.delivered_at = time.monotonic()

        while True:
            for partition in range(PARTITIONS):
                future = self.producer.send(self.topic, b"x", partition=partition)
                future.add_done_callback(delivered)
                self.futures.append(future)
            await self.producer.drain()
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        thread = threading.Thread(target=self.sample)
        thread.start()
        sending = asyncio.create_task(self.send())
        try:
            yield
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            self._done.set()
            thread.join()

    async def kill(self, broker: int) -> None:
        await self.cluster.kill_broker(broker)
        self.outages.append(Outage(broker, time.monotonic()))

    async def restart(self, broker: int) -> None:
        outage = next(each for each in reversed(self.outages) if each.broker == broker)
        outage.restarting = time.monotonic()
        await self.cluster.start_broker(broker)
        outage.restarted = time.monotonic()

    def dead_for(self, broker: int, at: float) -> float:
        """Seconds since ``broker`` was killed, at that time; negative: it runs, or starts."""
        mine = (each for each in self.outages if each.broker == broker)
        return next((at - each.killed for each in mine if each.killed <= at < each.restarting), -1)

    def is_disturbed(self, at: float) -> bool:
        """True if some broker was down at that time, or came back lately."""
        return any(each.killed <= at < each.restarted + SLACK for each in self.outages)

    @property
    def failing(self) -> set[int | str]:
        return {each.node for each in self.producer.health().brokers if each.is_failing}

    def is_well(self) -> bool:
        health = self.producer.health()
        return health.can_write is True and not health.problems


async def test_health_follows_what_is_done_to_brokers(cluster: KafkaCluster) -> None:
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))
    print(f"the same again: {SEED}={seed}")
    random = Random(seed)
    topic = "health"
    await cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=300_000)
    await producer.start()
    try:
        watch = Watch(cluster, producer, topic)
        async with watch.watching():
            await until(watch.is_well, "all leaders are connected")
            for victim in random.sample(BROKERS, 2):
                await watch.kill(victim)
                await until(lambda v=victim: v in watch.failing, f"broker {victim} is named", 10)
                await until(watch.is_well, "its partitions have other leaders", 60)
                await watch.restart(victim)
                await until(watch.is_well, "all is well again", 60)
            for victim in random.sample(BROKERS, 3):
                await watch.kill(victim)
                await asyncio.sleep(random.random())
            await until(lambda: producer.health().can_write is False, "all are dead", 20)
            leaders = {each.node for each in producer.health().brokers if each.leads}
            assert leaders <= set(BROKERS)
            assert leaders <= watch.failing
            assert leaders
            await asyncio.sleep(3.0)
            await asyncio.gather(*(watch.restart(broker) for broker in BROKERS))
            await until(watch.is_well, "the cluster is back", 90)
        await asyncio.wait_for(asyncio.gather(*watch.futures), 120)
        assert producer.health().oldest_record_age is None
    finally:
        await producer.close(0)
    check_samples(watch)


def check_samples(watch: Watch) -> None:
    """No false alarm while records are delivered, and no silence while all brokers are dead."""
    alarms = 0
    for at, health, metrics, delivered_at in watch.samples:
        dead_for = [watch.dead_for(broker, at) for broker in BROKERS]
        quiet_for = at - delivered_at
        if health.can_write is False:
            alarms += 1
            allowed = UNREACHABLE_AFTER if watch.is_disturbed(at) else STALLED_AFTER
            assert quiet_for >= allowed - 0.5, f"{health} {quiet_for:.1f} s after a delivery"
        if min(dead_for) > UNREACHABLE_AFTER + SLACK:
            assert health.can_write is False, (
                f"{health}, all brokers dead for {min(dead_for):.1f} s"
            )
            assert health.since is not None
            assert health.is_live
            assert health.oldest_record_age is not None
            assert health.oldest_record_age >= min(dead_for) - SLACK
            assert metrics["connection-count"] == 0.0
        if health.oldest_record_age is not None:
            assert health.oldest_record_age <= at - watch.samples[0].at + SLACK
        assert metrics["record-error-total"] == 0.0, "every record waits for its brokers"
    assert alarms, "the death of all brokers was noticed"
    assert watch.samples[-1].metrics["record-retry-total"] > 0
