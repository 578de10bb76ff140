"""Several callers, brokers in trouble and cancellations at random moments; every promise counted.

``AIOPRODUCER_SEED`` plays one schedule again, ``AIOPRODUCER_SCHEDULES`` says how many are played.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from aioproducer import ProducerClosedError, ProducerError
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import SimulatedNetwork
from tests.faults.test_cancellation_everywhere import (
    CANONICAL,
    PATIENCE,
    Hook,
    SendingApplication,
)
from tests.support.fake_kafka import FakeKafka
from tests.support.simulated_world import SimulatedProducer

pytestmark = pytest.mark.usefixtures("without_logs")

SCHEDULES = int(os.environ.get("AIOPRODUCER_SCHEDULES", "150"))
SEEDS = [int(seed) for seed in os.environ.get("AIOPRODUCER_SEED", "").split()]
BROKERS, CALLERS = 2, 4
MOST_TROUBLES = 12
PASSING: list[dict[str, Any]] = [
    {"error": 6},
    {"error": 19},
    {"error": 3},
    {"lie": 7},
    {"lie": 20},
    {"cut": True},
    {"cut_after_writing": True},
    {"silent": True},
    {"silent_after_writing": True},
    {"leave_out": True},
    {"throttle_ms": 200},
]
FOR_GOOD: list[dict[str, Any]] = [{"error": 87}, {"error": 29}, {"error": 2}]
OPTIONS: list[dict[str, Any]] = [
    {"buffer_memory": 12_000, "batch_size": 1_000},
    {"buffer_memory": 40_000, "batch_size": 400},
    {"linger_ms": 20},
    {"linger_ms": 0, "batch_size": 300},
    {"batch_size": 0},
    {"compression_type": "gzip"},
    {"max_in_flight_requests_per_connection": 1},
    {"interceptor_classes": [Hook]},
    {"delivery_timeout_ms": 31_000},
    {"max_block_ms": 2_000},
    CANONICAL,
]


class Schedule:
    """One seed's: what the callers do, what goes wrong, and who is cancelled when."""

    def __init__(self, seed: int, loop: SimulatedLoop) -> None:
        self.random = Random(seed)
        self.loop = loop
        self.for_good = seed % 2 == 1
        """Some records are refused, too, or expire."""
        self.callers: list[asyncio.Task[None]] = []
        self.troubles = self.random.choice([0, self.random.randint(0, MOST_TROUBLES)])
        self.peaceful = not self.troubles
        self.next_event = 0
        self.closes = False
        """Somebody closes the producer in the middle of it."""

    async def play(self) -> None:
        random = self.random
        self.kafka = kafka = FakeKafka(BROKERS, {"orders": 2})
        await kafka.start()
        options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers}
        for chosen in random.sample(OPTIONS, random.randint(0, 3)):
            options |= chosen
        if not self.for_good:
            options |= {"delivery_timeout_ms": 3_600_000, "max_block_ms": 3_600_000}
        producer = SimulatedProducer(**options)
        await producer.start()
        self.world = SendingApplication(kafka, producer)
        self.callers = [self.loop.create_task(self.call()) for _ in range(CALLERS)]
        self.next_event = self.loop.steps
        self.loop.before_step = self.maybe_disturb
        self.closes = random.random() < 0.3
        if self.closes:
            await self.close(random.choice([0, 0.01, 1, 100]))
        await asyncio.wait(self.callers)
        self.loop.before_step = lambda: None
        for caller in self.callers:
            if not caller.cancelled():
                caller.result()
        await self.make_peace()
        if not self.closes:
            await self.check_goes_on()
            assert await producer.close() == 0
        self.world.check_fates()
        assert not self.peaceful or not sum(each.refused for each in kafka.topics["orders"])
        await kafka.stop()
        await asyncio.sleep(1.0)  # until the last packet has arrived
        assert [task for task in self.loop.tasks if not task.done()] == [asyncio.current_task()]
        assert not self.loop.timers

    # --- what callers do -------------------------------------------------------------------

    async def call(self) -> None:
        try:
            await self.do_this_and_that()
        except ProducerClosedError:
            assert self.closes

    async def do_this_and_that(self) -> None:
        random, world = self.random, self.world
        for _ in range(random.randint(1, 8)):
            await random.choice(
                [self.send, self.send, self.send_and_wait, self.flush, self.send_many, self.pause]
            )()
            if random.random() < 0.7:
                await world.producer.drain()

    async def send(self) -> None:
        random = self.random
        for _ in range(random.choice([1, 3, 10])):
            self.put(random.randrange(2), bytes(random.choice([0, 10, 100, 800])))

    async def send_and_wait(self) -> None:
        future = self.put(self.random.randrange(2), b"awaited")
        if future is not None:
            try:
                await future
            except ProducerError:
                assert self.for_good or self.closes

    def put(self, partition: int, value: bytes) -> asyncio.Future[Any] | None:
        """None: there is no memory for it."""
        try:
            return self.world.send(partition, value, mine=True)
        except ProducerError:
            self.world.sent[-1].cancellable = True
            return None

    async def flush(self) -> None:
        await self.world.producer.flush()

    async def send_many(self) -> None:
        random = self.random
        partition, count = random.randrange(2), random.randint(1, 20)
        values = self.world.values(count, partition, bytes(random.choice([0, 100, 800])))
        report = await self.world.producer.send_many("orders", values, partition=partition)
        assert report.sent == count
        assert self.for_good or self.closes or not report.failed

    async def pause(self) -> None:
        await asyncio.sleep(self.random.choice([0, 0, 0.001, 0.1, 5]))

    # --- what goes wrong -------------------------------------------------------------------

    def maybe_disturb(self) -> None:
        if self.loop.steps < self.next_event:
            return
        random = self.random
        self.next_event = self.loop.steps + random.choice([1, 3, 10, 40])
        happenings: list[Callable[[], object]] = [self.cancel]
        if self.troubles:
            self.troubles -= 1
            happenings += [self.answer, self.answer, self.elect, self.cut]
        random.choice(happenings)()

    def cancel(self) -> None:
        """A caller, or one of the futures that nobody awaits."""
        random = self.random
        if random.random() < 0.15:
            self.world.cancel(random.choice(self.callers))
        elif self.world.sent and (future := self.world.sent[-1].future) is not None:
            self.world.cancel(future)

    def answer(self) -> None:
        faults = PASSING + (FOR_GOOD if self.for_good else [])
        self.kafka.answers.append(FakeKafka.Answer(**self.random.choice(faults)))

    def elect(self) -> None:
        self.kafka.lead("orders", self.random.randrange(2), self.random.randint(1, BROKERS))
        self.kafka.hints = self.random.random() < 0.5

    def cut(self) -> None:
        server = self.kafka.servers[self.random.randint(1, BROKERS)]
        self.world.start(server.cut())

    # --- the end ---------------------------------------------------------------------------

    async def close(self, timeout: float) -> None:
        """In the middle of it all, within the bound."""
        await asyncio.sleep(self.random.choice([0.001, 0.05, 0.5, 3]))
        began = self.loop.time()
        await self.world.producer.close(timeout)
        assert self.loop.time() - began < timeout + 0.1

    async def make_peace(self) -> None:
        self.kafka.answers.clear()
        await asyncio.gather(*self.world.beside)
        if not self.closes:
            async with asyncio.timeout(PATIENCE):
                await self.world.producer.flush()

    async def check_goes_on(self) -> None:
        """Nothing is left of it all: memory is whole, and the next records are delivered."""
        world = self.world
        async with asyncio.timeout(PATIENCE):
            await world.producer.drain()
            for partition in range(2):
                await world.send(partition)
        world.check_memory()


@pytest.mark.parametrize("seed", SEEDS or range(SCHEDULES))
def test_a_random_schedule(seed: int) -> None:
    print(f"AIOPRODUCER_SEED={seed}")
    random = Random(-1 - seed)
    loop = SimulatedLoop()
    SimulatedNetwork(loop, delay=lambda: random.choice([0, 0, 0, 0.001, 0.02]))
    loop.run(Schedule(seed, loop).play())
    gc.collect(0)
    assert not loop.complaints
