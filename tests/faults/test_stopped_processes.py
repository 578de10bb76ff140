"""A process is stopped at every moment there is, and goes on: nothing fails, nothing is twice.

A run plays a scenario on a loop whose callbacks run one at a time. In run k the process stands
still before callback k, while its brokers run on; afterwards its timers ring first, and its sockets
are read piece by piece. The runs end when the scenario ends before its stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from aioproducer import Producer, ProducerConfig, RecordMetadata
from aioproducer.client.cluster_client import ClusterClient
from aioproducer.client.describe_request import DescribeRequest
from tests.faults.simulated_loop import SimulatedLoop
from tests.support.fake_kafka import FakeKafka
from tests.support.fake_kafka.logins import LOGIN, FakeLogins
from tests.support.simulated_producer import SimulatedProducer

STOPS = [1.0, 60.0, 900.0]
"""Seconds; the second is above the timeouts, the last above everything."""
EVERY = 3
"""A run stops at every third callback; each length of a stop begins at another one."""
PARTITIONS = 2

pytestmark = pytest.mark.usefixtures("without_logs")


@dataclass
class Life:
    """A producer, its brokers, and its records."""

    kafka: FakeKafka
    options: dict[str, Any]
    sent: dict[str, list[bytes]] = field(default_factory=dict)
    futures: list[asyncio.Future[RecordMetadata]] = field(default_factory=list)

    def producer(self, **options: Any) -> Producer:
        servers = self.kafka.bootstrap_servers
        return SimulatedProducer(bootstrap_servers=servers, **self.options, **options)

    def send(self, producer: Producer, topic: str = "orders") -> asyncio.Future[RecordMetadata]:
        values = self.sent.setdefault(topic, [])
        values.append(b"%d" % len(values))
        future = producer.send(topic, values[-1], partition=len(values) % PARTITIONS)
        self.futures.append(future)
        return future

    def check(self) -> None:
        assert [future.exception() for future in self.futures] == [None] * len(self.futures)
        for topic, values in self.sent.items():
            for partition in range(PARTITIONS):
                there = [v for n, v in enumerate(values, 1) if n % PARTITIONS == partition]
                assert self.kafka.values(topic, partition) == there


Scenario: TypeAlias = Callable[[Life], Coroutine[Any, Any, None]]


async def records(life: Life) -> None:
    """Lone records, many at once, and a topic that becomes known late."""
    async with life.producer() as producer:
        await life.send(producer)
        for _ in range(6):
            life.send(producer)
        life.kafka.create_topic("late", PARTITIONS)
        life.send(producer, "late")
        await producer.flush()
        await life.send(producer)


async def transactions(life: Life) -> None:
    """One commits with offsets of a group, the next one aborts, and the last one commits."""
    async with life.producer(transactional_id="payments") as producer:
        async with producer.transaction():
            life.send(producer)
            await life.send(producer)
            await producer.send_offsets_to_transaction({("input", 0): 7}, "readers")
        await producer.begin_transaction()
        await life.send(producer)
        await producer.abort_transaction()
        async with producer.transaction():
            await life.send(producer)


async def queries(life: Life) -> None:
    """What callers wait for beside records."""
    async with life.producer() as producer:
        assert len(await producer.partitions_for("orders")) == PARTITIONS
        await producer.check(topics=["orders"])


async def requests_of_clients(life: Life) -> None:
    """An Admin and a Reader send theirs in this way."""
    config = ProducerConfig(bootstrap_servers=life.kafka.bootstrap_servers)
    client = ClusterClient(config, "client", "Admin", SimulatedProducer._environment)
    await client.start()
    try:
        found = await client.describe(["orders"])
        assert len(found.topics["orders"].partitions) == PARTITIONS
        for broker in found.brokers.values():
            await client.request(DescribeRequest(()), broker)
        await client.retry(lambda: client.describe(["orders"]), timeout=30.0, doing="a test")
    finally:
        await client.close()


IDEMPOTENT: dict[str, Any] = {}
SHORT: dict[str, Any] = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000}
PLAIN: dict[str, Any] = {"enable_idempotence": False, "retry_backoff_ms": 10}
LIVES: dict[str, tuple[Scenario, dict[str, Any]]] = {
    "acks=all": (records, IDEMPOTENT),
    "acks=1": (records, PLAIN | {"acks": 1}),
    "acks=0": (records, PLAIN | {"acks": 0}),
    "acks=1, short timeouts": (records, PLAIN | SHORT | {"acks": 1}),
    "logins": (records, PLAIN | LOGIN | {"acks": 1}),
    "transactions": (transactions, IDEMPOTENT),
    "queries": (queries, IDEMPOTENT),
    "requests of clients": (requests_of_clients, IDEMPOTENT),
}


def live(scenario: Scenario, options: dict[str, Any], stop_before: int, seconds: float) -> bool:
    """One run; False: it ended before the stop."""
    loop = SimulatedLoop()
    stopped = False

    async def run() -> Life:
        logins = FakeLogins() if "sasl_username" in options else None
        kafka = FakeKafka(2, {"orders": PARTITIONS}, logins=logins)
        await kafka.start()
        life = Life(kafka, options)
        begin = loop.steps

        def perhaps_stop() -> None:
            nonlocal stopped
            if not stopped and loop.steps - begin == stop_before:
                stopped = True
                loop.stop_clients(seconds)

        loop.before_step = perhaps_stop
        await scenario(life)
        loop.before_step = lambda: None
        await kafka.stop()
        return life

    loop.run(run()).check()
    assert loop.complaints == []
    return stopped


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize("life", LIVES.values(), ids=list(LIVES))
def test_a_stop_at_any_moment_fails_nothing(
    life: tuple[Scenario, dict[str, Any]], seconds: float
) -> None:
    step = STOPS.index(seconds)
    while live(*life, step, seconds):
        step += EVERY
    assert step > 50, "there were moments"


@pytest.mark.parametrize("steps", range(8))
def test_a_response_in_time_is_read_before_its_request_is_late(steps: int) -> None:
    """It comes during a stop, just before the request's timeout, which is over after the stop.

    The stop is a few ``steps`` after 1.9 of 2 seconds.
    """
    loop = SimulatedLoop(lambda: 1.998 / 2)

    async def run() -> None:
        kafka = FakeKafka(1, {"orders": 1})
        await kafka.start()
        life = Life(kafka, PLAIN | SHORT | {"acks": 1, "delivery_timeout_ms": 10_000})
        async with life.producer() as producer:
            await producer.send("orders", b"first")
            began, last = loop.time(), 0

            def perhaps_stop() -> None:
                nonlocal last
                last += loop.time() >= began + 1.9
                if last > steps:
                    loop.before_step = lambda: None
                    loop.stop_clients(0.3)

            loop.before_step = perhaps_stop
            await producer.send("orders", b"second")
        assert kafka.values("orders") == [b"first", b"second"]
        await kafka.stop()

    loop.run(run())
