"""A simulated world for a test: an event loop in virtual time, a network, and a Kafka cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import Any, Final, TypeVar

from aioproducer.engine.client.environment import Environment, use_environment
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.errors import BrokerConnectionError, IllegalStateError
from aioproducer.foundation.runtime.threads import Load, load_here
from aioproducer.testing.simulation.cluster import EPOCH, SimulatedCluster
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.loop import BEGIN, SimulatedLoop
from aioproducer.testing.simulation.network import SimulatedNetwork

__all__ = ["SimulatedWorld", "simulate"]

T = TypeVar("T")

LATENCY: Final = 0.0005, 0.005
"""Seconds that bytes are under way, if a life says nothing else."""
_SUFFIX: Final = ".simulated"


class SimulatedWorld:
    """A simulated world, created by :func:`simulate`."""

    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        *,
        timers_first: bool = False,
        options: ClusterOptions | None = None,
    ) -> None:
        self.seed: int = seed
        """The number that decides everything random in the run."""
        self.random: Random = self._drawn_from("life")
        """A random number generator for your test, such as for the time of a fault."""
        self._loop = SimulatedLoop(timers_first=timers_first)
        self._network = SimulatedNetwork(self._loop)
        self.cluster: SimulatedCluster = SimulatedCluster(
            brokers, self._network, self._loop.outside, self._drawn_from("cluster"), options
        )
        """The Kafka cluster, and its faults."""
        self._clients = count()

    @property
    def now(self) -> float:
        """Seconds since the start, on the virtual clock."""
        return self._loop.time() - BEGIN

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function ``seconds`` after the start, whatever the application is doing then.

        ::

            world.at(2.5, partial(world.cluster.crash, 1))
        """
        self._loop.outside.call_at(BEGIN + seconds, call)

    def freeze(self, seconds: float) -> None:
        """Freeze the application, like SIGSTOP or a sleeping laptop. Network and brokers continue.

        In a coroutine this blocks the event loop, like a blocking call.
        """
        self._loop.pass_time(seconds)

    # --- for simulate() --------------------------------------------------------------------

    def _drawn_from(self, name: str) -> Random:
        """A generator of random numbers, always the same for a seed and a name."""
        return Random(f"{self.seed} {name}")

    def _run(self, life: Coroutine[Any, Any, T], timeout: float = inf) -> T:
        """Run a life to its end, once."""
        with use_environment(self._environment()):
            return self._loop.run(life, timeout)

    def _environment(self) -> Environment:
        """The environment of the clients that live in this world."""
        return Environment(
            clock=self._loop.time,
            real_clock=self._loop.time,
            wall_clock_ns=lambda: round((EPOCH + self._loop.time()) * 1e9),
            random=lambda: self._drawn_from(f"client {next(self._clients)}"),
            network=partial(_network_client, self._loop),
            resolve=_resolve,
            load=_load,
        )


def _network_client(loop: SimulatedLoop, settings: ClientSettings, *given: Any) -> NetworkClient:
    """A client of the simulated brokers."""
    if asyncio._get_running_loop() is not loop:
        raise IllegalStateError(
            "a simulated world has one event loop and no threads: a blocking Producer can't be "
            "simulated"
        )
    return NetworkClient(settings, *given)


async def _load(loads: Iterable[Load]) -> None:
    """Import at once: what another world has imported makes no difference to this one."""
    load_here(loads)


async def _resolve(host: str, port: int) -> list[tuple[str, int]]:
    if not host.endswith(_SUFFIX):
        raise BrokerConnectionError(
            f"the name {host!r} can't be resolved in a simulated world: use "
            "world.cluster.bootstrap_servers"
        )
    return [(host, port)]


def simulate(
    life: Callable[[SimulatedWorld], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    brokers: int = 3,
    topics: Mapping[str, int] | None = None,
    timeout: float = 3600.0,
) -> T:
    """Run a coroutine function in a simulated world, and return its result.

    ::

        def test_an_order_survives_a_crash():
            async def life(world):
                servers = world.cluster.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    order = producer.send("orders", b"one espresso")
                    world.cluster.crash(1)
                    await asyncio.sleep(60)
                    await order
                assert world.cluster.records("orders").values == [b"one espresso"]

            simulate(life, seed=7, topics={"orders": 6})

    The world has an event loop in virtual time (``asyncio.sleep(60)`` takes no real time), a
    network, and the cluster :attr:`SimulatedWorld.cluster`. Every :class:`~aioproducer.Producer`,
    :class:`~aioproducer.reader.Reader`, :class:`~aioproducer.consumer.Consumer` and
    :class:`~aioproducer.admin.Admin` that you create in the coroutine function belongs to the
    world.

    ``seed`` decides all random numbers, including those of the module :mod:`random`: the same seed
    repeats the same run. ``topics``: names and numbers of partitions. ``timeout``: seconds of
    virtual time.

    Tasks that are still running at the end are cancelled, as in :func:`asyncio.run`. An exception
    of the coroutine is raised here, with a note that shows the seed.

    Raises:
        DeadlockError: the coroutine waits for something that will never happen.
        TimeoutError: the run takes longer than ``timeout``, or more than 2 million callbacks of the
            event loop.
        RuntimeError: an event loop is already running in this thread.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("simulate() can't be called while an event loop runs in this thread")
    world = SimulatedWorld(seed, brokers)
    world.cluster.set_latency(*LATENCY)
    for name, partitions in (topics or {}).items():
        world.cluster.create_topic(name, partitions)
    state = random.getstate()
    random.seed(seed)
    try:
        return world._run(life(world), timeout)
    except BaseException as error:
        error.add_note(f"simulated with seed={seed}: the same seed repeats this run")
        raise
    finally:
        random.setstate(state)
