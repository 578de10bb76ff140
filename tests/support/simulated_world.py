"""The parts inside a simulated world, for tests that watch what users can't see."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aioproducer.testing.simulation.kafka import KafkaModel
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import Connection, SimulatedNetwork
from aioproducer.testing.simulation.world import SimulatedWorld

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
