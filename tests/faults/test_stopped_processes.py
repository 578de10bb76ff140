"""A process is stopped at every moment there is, and goes on: nothing fails, nothing is twice.

A run plays a scenario on a loop whose callbacks run one at a time. In run k the process stands
still before callback k, while its brokers run on; afterwards its timers ring first, as they do on
uvloop. The runs end when the scenario ends before its stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from aioproducer import FailedRecord, Producer, ProducerConfig, RecordMetadata
from aioproducer.auth.tokens import TokenSource
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.requests import DescribeRequest
from aioproducer.foundation.tuning import COMPRESS_ELSEWHERE_BYTES
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.support.simulated_world import loop_of, model_of, network_of, run_in

STOPS = [1.0, 60.0, 900.0]
"""Seconds; the second is above the timeouts, the last above everything."""
EVERY = 3
"""A run stops at every third callback; each length of a stop begins at another one."""
PARTITIONS = 2
LONGEST_TRANSACTION_MS = 2_000_000
"""Brokers abort no transaction because of a stop."""
USER, PASSWORD = "user", "secret"
PRODUCE, UNAUTHORIZED = 0, 29
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": USER,
    "sasl_password": PASSWORD,
}

pytestmark = pytest.mark.usefixtures("without_logs")


@dataclass
class Life:
    """A producer, its brokers, and its records."""

    world: SimulatedWorld
    options: dict[str, Any]
    sent: dict[str, list[bytes]] = field(default_factory=dict)
    futures: list[asyncio.Future[RecordMetadata]] = field(default_factory=list)

    def producer(self, **options: Any) -> Producer:
        servers = self.world.cluster.bootstrap_servers
        return Producer(bootstrap_servers=servers, **self.options, **options)

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
                log = model_of(self.world).log(topic, partition)
                assert [record.value for record in log] == there


Scenario: TypeAlias = Callable[[Life], Coroutine[Any, Any, None]]


async def records(life: Life) -> None:
    """Lone records, many at once, and a topic that becomes known late."""
    async with life.producer() as producer:
        await life.send(producer)
        for _ in range(6):
            life.send(producer)
        life.world.cluster.create_topic("late", PARTITIONS)
        life.send(producer, "late")
        await producer.flush()
        await life.send(producer)


async def transactions(life: Life) -> None:
    """One commits with offsets of a group, the next one aborts, and the last one commits."""
    async with life.producer(
        transactional_id="payments", transaction_timeout_ms=LONGEST_TRANSACTION_MS
    ) as producer:
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
    config = ProducerConfig(bootstrap_servers=life.world.cluster.bootstrap_servers)
    client = ClusterClient(config, "client", "Admin")
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
    cluster = ClusterOptions(
        transaction_max_timeout_ms=LONGEST_TRANSACTION_MS,
        credentials={USER: PASSWORD} if "sasl_username" in options else None,
    )
    world = SimulatedWorld(stop_before, 2, timers_first=True, options=cluster)
    for topic in ("orders", "input"):
        world.cluster.create_topic(topic, PARTITIONS)
    life, loop = Life(world, options), loop_of(world)
    stopped = False

    def perhaps_stop() -> None:
        nonlocal stopped
        if not stopped and loop.steps == stop_before:
            stopped = True
            world.freeze(seconds)

    loop.before_step = perhaps_stop
    run_in(world, scenario(life))
    life.check()
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
    world = SimulatedWorld(steps, 2, timers_first=True)
    world.cluster.create_topic("orders", PARTITIONS)
    life = Life(world, PLAIN | SHORT | {"acks": 1, "delivery_timeout_ms": 10_000})
    loop = loop_of(world)
    stopped = False

    async def run() -> None:
        async with life.producer() as producer:
            for _ in range(PARTITIONS):
                await life.send(producer)
            network_of(world).delay = lambda: 1.998 / 2
            began, last = loop.time(), 0

            def perhaps_stop() -> None:
                nonlocal last, stopped
                last += loop.time() >= began + 1.9
                if last > steps and not stopped:
                    stopped = True
                    world.freeze(0.3)

            loop.before_step = perhaps_stop
            await life.send(producer)

    run_in(world, run())
    assert stopped
    life.check()


ROUND_TRIP = 0.1
LOGIN_TRIPS = 2
"""Round trips of a login by PLAIN: the handshake and the password."""


def test_a_batch_that_was_compressed_during_a_stop_needs_a_connection_of_its_own() -> None:
    """The connections are too old to be used then."""
    world = SimulatedWorld(0, 1)
    world.cluster.create_topic("orders")
    loop_of(world).executor_delay = lambda: 5.0
    network_of(world).delay = lambda: ROUND_TRIP / 2
    options: dict[str, Any] = PLAIN | {"acks": 1, "compression_type": "gzip"}
    servers, value = world.cluster.bootstrap_servers, bytes(COMPRESS_ELSEWHERE_BYTES + 1)

    async def run() -> None:
        async with Producer(
            bootstrap_servers=servers, batch_size=2 * len(value), **options
        ) as producer:
            await producer.send("orders", b"")
            future = producer.send("orders", value)
            await asyncio.sleep(1.0)  # a thread has it
            world.freeze(900.0)
            await future

    run_in(world, run())
    log = model_of(world).log("orders", 0)
    assert [record.value for record in log] == [b"", value]


def test_a_hook_for_failed_records_outlives_a_stop() -> None:
    world = SimulatedWorld(0, 1)
    world.cluster.create_topic("orders")
    kept = []

    async def keep(record: FailedRecord) -> None:
        await asyncio.sleep(1.0)
        world.freeze(900.0)
        await asyncio.sleep(1.0)
        kept.append(record.value)

    async def run() -> None:
        servers = world.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers, on_failed=keep) as producer:
            model_of(world).fail_next(PRODUCE, UNAUTHORIZED)
            producer.send("orders", b"espresso")
            await producer.flush()

    run_in(world, run())
    assert kept == [b"espresso"]


def test_a_provider_of_credentials_outlives_a_stop() -> None:
    world = SimulatedWorld(0, 1, options=ClusterOptions(credentials={USER: PASSWORD}))
    world.cluster.create_topic("orders")
    asked, given = [], []

    async def give() -> tuple[str, str]:
        asked.append(world.now)
        await asyncio.sleep(1.0)
        if len(asked) == 1:
            world.freeze(900.0)
        await asyncio.sleep(1.0)
        given.append(world.now)
        return USER, PASSWORD

    async def run() -> None:
        async with Producer(
            bootstrap_servers=world.cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_credentials_provider=give,
        ) as producer:
            await producer.send("orders", b"espresso")

    run_in(world, run())
    assert len(given) == len(asked), "no call was given up"


def test_a_provider_of_tokens_outlives_a_stop() -> None:
    world = SimulatedWorld(0, 1)

    async def give() -> tuple[str, float]:
        for step in range(5):
            if step == 2:
                world.freeze(3.0)
            await asyncio.sleep(0.1)
        return "abc.def.ghi", world.now + 3_600.0

    async def run() -> None:
        source = TokenSource(give, clock=lambda: world.now, timeout=1.0)
        assert (await source.token()).expires is not None

    run_in(world, run())


@pytest.mark.parametrize("in_flight", [0, 1])
@pytest.mark.parametrize("logs_in", [False, True])
def test_a_connection_that_a_firewall_forgot_is_not_waited_for(
    in_flight: int, logs_in: bool
) -> None:
    """The next record needs a connection, a login with the check behind it, and two round trips."""
    options = ClusterOptions(credentials={USER: PASSWORD} if logs_in else None)
    world = SimulatedWorld(0, 1, timers_first=True, options=options)
    loop, network = loop_of(world), network_of(world)
    world.cluster.create_topic("orders", PARTITIONS)
    network.delay = lambda: ROUND_TRIP / 2
    life = Life(world, PLAIN | {"acks": 1, "retries": 10} | (LOGIN if logs_in else {}))

    async def run() -> None:
        async with life.producer() as producer:
            await life.send(producer)
            if in_flight:
                for connection in network.connections:
                    connection.requests.stall()
                life.send(producer)
            await asyncio.sleep(ROUND_TRIP)
            for connection in network.connections:
                connection.stall()
            world.freeze(900.0)
            began = loop.time()
            await life.send(producer)
            trips = 1 + (LOGIN_TRIPS + 1) * logs_in + 2
            allowed = 0.01 + 0.2 * in_flight
            assert loop.time() - began == pytest.approx(trips * ROUND_TRIP, abs=allowed)
            await producer.flush()

    run_in(world, run())
    life.check()
