"""The parts inside a producer, for tests that watch what users can't see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aioproducer import Producer, sync
from aioproducer.engine.accumulator.record_accumulator import RecordAccumulator
from aioproducer.engine.client.environment import Environment, use_environment
from aioproducer.engine.core.engine import Engine
from aioproducer.engine.core.lifecycle import Lifecycle
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.foundation.runtime import tasks


def hidden_tasks() -> set[asyncio.Task[Any]]:
    """The tasks of clients that run on the running loop."""
    loop = asyncio.get_running_loop()
    return {task for task in list(tasks._HIDDEN) if task.get_loop() is loop and not task.done()}


def all_tasks() -> set[asyncio.Task[Any]]:
    """The tasks of the running loop, with those of clients, which ``asyncio.all_tasks()`` lacks."""
    return asyncio.all_tasks() | hidden_tasks()


def core_of(producer: Producer | sync.Producer) -> ProducerCore:
    """What both shells hold."""
    return producer._core


def lifecycle_of(producer: Producer) -> Lifecycle:
    """The producer's states."""
    return producer._core.lifecycle


def running_engine(producer: Producer) -> Engine | None:
    """The parts of a producer; None: it was not started."""
    return producer._core._engine


def engine_of(producer: Producer | sync.Producer) -> Engine:
    """The parts of a producer that was started."""
    engine = producer._core._engine
    assert engine is not None
    return engine


def accumulator_of(producer: Producer | sync.Producer) -> RecordAccumulator:
    """The batches and the waiting records of a producer that was started."""
    return engine_of(producer).accumulator


def quick_logins(backoff: float, longest: float) -> Environment:
    """The system, but a broker that refused a login gets the next one after seconds of ours."""

    def network(settings: ClientSettings, *given: Any) -> NetworkClient:
        quick = replace(settings, login_backoff=backoff, login_backoff_max=longest)
        return NetworkClient(quick, *given)

    return Environment(network=network)


def in_environment(environment: Environment) -> Callable[..., Producer]:
    """Producers with other clocks, another network, or chance that repeats itself."""

    class ProducerElsewhere(Producer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            with use_environment(environment):
                super().__init__(*arguments, **options)

    return ProducerElsewhere
