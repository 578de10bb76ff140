"""Consumers of a group in a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.model import TopicPartition
from aioproducer.testing import SimulatedWorld, simulate

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
each_protocol = pytest.mark.parametrize("protocol", ["classic", "consumer"])

Life = Callable[[SimulatedWorld], Coroutine[Any, Any, None]]


def live(life: Life, partitions: int = 1, brokers: int = 1, seed: int = 0) -> None:
    simulate(life, seed=seed, topics={"orders": partitions}, brokers=brokers)


def consumer(
    world: SimulatedWorld, *, topics: tuple[str, ...] = ("orders",), **options: Any
) -> Consumer:
    defaults = {
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 1_000,
    }
    servers = world.cluster.bootstrap_servers
    return Consumer(*topics, group_id="g", bootstrap_servers=servers, **{**defaults, **options})


async def fill(world: SimulatedWorld, records: int, partitions: int) -> None:
    async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        for number in range(records):
            key, value = b"%d" % (number % 7), b"%d" % number
            producer.send("orders", value, key=key, partition=number % partitions)
        await producer.flush()
