"""Brokers that answer late, in virtual time: the throughput is the protocol's, with all defaults.

The sender takes no time, so the throughput only depends on the producer's rules. The bound is the
size of a request, times five requests in flight to each broker, divided by the time of a response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import pytest

from aioproducer import Producer, RecordMetadata
from aioproducer.testing import simulate
from aioproducer.testing.simulation import network
from aioproducer.testing.simulation.world import SimulatedWorld

RESPONSE_TIME: Final = 0.25
REQUEST_TIME: Final = 0.0002
IN_FLIGHT: Final = 5
MAX_REQUEST_SIZE: Final = 1_048_576
WARM_UP: Final = 2.0
MEASURED: Final = 4.0


@pytest.fixture(autouse=True)
def responses_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is quick in one direction: brokers take the time, not the requests."""
    made = network.Connection.__init__

    def make(connection: network.Connection, *given: Any) -> None:
        made(connection, *given)
        connection.requests._delay = lambda: REQUEST_TIME
        connection.responses._delay = lambda: RESPONSE_TIME

    monkeypatch.setattr(network.Connection, "__init__", make)


class Sender:
    """Sends values of one size, as fast as ``drain()`` lets it."""

    def __init__(self, producer: Producer, size: int, keys: int = 0) -> None:
        self._producer = producer
        self._value = bytes(size)
        self._keys = keys
        self._futures: deque[asyncio.Future[RecordMetadata]] = deque()
        self._ends: dict[int, int] = {}

    async def send_for(self, world: SimulatedWorld, seconds: float) -> None:
        ends, number = world.now + seconds, 0
        while world.now < ends:
            for _ in range(20):
                number += 1
                key = b"%d" % (number % self._keys) if self._keys else None
                self._futures.append(self._producer.send("t", self._value, key=key))
                await self._producer.drain()
            await asyncio.sleep(0)
            self.check_order()

    def check_order(self) -> None:
        """The records of a partition are in its log in the order of their ``send()``."""
        while self._futures and self._futures[0].done():
            metadata = self._futures.popleft().result()
            assert metadata.offset > self._ends.get(metadata.partition, -1)
            self._ends[metadata.partition] = metadata.offset

    def sent_bytes(self) -> float:
        nodes = self._producer.metrics()["producer-node-metrics"].values()
        return sum(node["outgoing-byte-total"] for node in nodes)


def part_of_the_bound(
    partitions: int, size: int, keys: int = 0, *, warm_up: float = WARM_UP, cold: bool = False
) -> float:
    """``cold``: no leader is connected when the warm-up begins, and there is no producer id."""

    async def life(world: SimulatedWorld) -> float:
        world.cluster.create_topic("t", partitions, replicas=1)
        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            if not cold:
                await producer.send("t", b"the first")
            sender = Sender(producer, size, keys)
            await sender.send_for(world, warm_up)
            began, before = world.now, sender.sent_bytes()
            await sender.send_for(world, MEASURED)
            rate = (sender.sent_bytes() - before) / (world.now - began)
        sender.check_order()
        brokers = min(partitions, len(world.cluster.brokers))
        return rate / (brokers * IN_FLIGHT * MAX_REQUEST_SIZE / RESPONSE_TIME)

    return simulate(life, seed=1)


@pytest.mark.parametrize("partitions", [1, 3, 12])
def test_distant_brokers_get_full_requests_all_the_time(partitions: int) -> None:
    assert part_of_the_bound(partitions, 10_000) >= 0.9


def test_a_partition_of_small_records_gets_full_requests() -> None:
    """Batches grow over the usual number of records, if requests are too small otherwise."""
    assert part_of_the_bound(1, 200) >= 0.9


def test_batches_that_fill_before_the_first_may_leave_are_large() -> None:
    """Else a caller fills the memory with small ones, which leave for seconds, five at a time."""
    assert part_of_the_bound(1, 200, warm_up=2.5, cold=True) >= 0.9
