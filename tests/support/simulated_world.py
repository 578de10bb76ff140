"""A simulated world for tests: the parts inside it, its producers, and consumers of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.engine.client.environment import Environment
from aioproducer.model import TopicPartition
from aioproducer.testing import simulate
from aioproducer.testing.simulation.kafka import KafkaModel
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import Connection, SimulatedNetwork
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.support.inside import in_environment

T = TypeVar("T")


def run_in(world: SimulatedWorld, life: Coroutine[Any, Any, T]) -> T:
    """Run a life to its end, however long it takes; once for each world."""
    return world._run(life)


def loop_of(world: SimulatedWorld) -> SimulatedLoop:
    """The event loop of the life."""
    return world._loop


def network_of(world: SimulatedWorld) -> SimulatedNetwork:
    """The network between the life and its brokers."""
    return world._network


def model_of(world: SimulatedWorld) -> KafkaModel:
    """The state of the brokers. :func:`change` changes it."""
    return world.cluster._model


def connections_to(world: SimulatedWorld, broker: int) -> list[Connection]:
    """The open connections to a broker."""
    return world.cluster._connections(broker)


def change(
    world: SimulatedWorld, change: Callable[..., None], *arguments: Any, **options: Any
) -> None:
    """Call a method of the model that takes the time last, and do what follows from it."""
    world.cluster._change(change, *arguments, **options)


def make_all_due(producer: Any) -> None:
    """Make every part of a producer's sender due, if the sender runs."""
    engine = producer._core._engine
    if engine is not None and engine._sender_task is not None and not engine._sender_task.done():
        engine._sender.connections_changed()


SimulatedProducer = in_environment(
    Environment(
        clock=lambda: asyncio.get_running_loop().time(),
        random=lambda: Random(5),
    )
)
"""A producer reads the clock of the loop it runs on, and draws the same numbers each time."""


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
