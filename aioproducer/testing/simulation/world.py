"""A world of its own for a test: an event loop in virtual time, a network, and a Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from aioproducer.admin import Admin
from aioproducer.client.environment import Environment
from aioproducer.errors import BrokerConnectionError
from aioproducer.network.client import NetworkClient
from aioproducer.network.connection_states import ClientSettings
from aioproducer.producer import Producer
from aioproducer.reader import Reader
from aioproducer.testing.simulation.cluster import EPOCH, SimulatedCluster
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.loop import BEGIN, SimulatedLoop
from aioproducer.testing.simulation.network import SimulatedNetwork

__all__ = ["SimulatedWorld", "simulate"]

T = TypeVar("T")

_CLIENTS: Final[tuple[Any, ...]] = (Producer, Reader, Admin)
_SUFFIX: Final = ".simulated"


class SimulatedWorld:
    """See :func:`simulate`."""

    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        *,
        timers_first: bool = False,
        options: ClusterOptions | None = None,
    ) -> None:
        self.seed = seed
        self.loop = SimulatedLoop(timers_first=timers_first)
        self.network = SimulatedNetwork(self.loop)
        self.cluster = SimulatedCluster(
            brokers, self.network, self.loop.outside, self.random("cluster"), options
        )
        self._clients = count()

    def random(self, name: str) -> Random:
        """A generator of random numbers, always the same for a seed and a name."""
        return Random(f"{self.seed} {name}")

    # --- clients ---------------------------------------------------------------------------

    def environment(self) -> Environment:
        """The environment of clients that live in this world."""
        return Environment(
            clock=self.loop.time,
            wall_clock_ns=self._wall_clock_ns,
            random=lambda: self.random(f"client {next(self._clients)}"),
            network=_network_client,
        )

    def _wall_clock_ns(self) -> int:
        return round((EPOCH + self.loop.time()) * 1e9)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let all producers, readers and admins that are made here live in this world."""
        environment = self.environment()
        before = [client._environment for client in _CLIENTS]
        for client in _CLIENTS:
            client._environment = environment
        try:
            yield
        finally:
            for client, former in zip(_CLIENTS, before, strict=True):
                client._environment = former

    # --- life ------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run ``main`` to its end in the world's event loop; once for each world."""
        return self.loop.run(main)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.loop.time() - BEGIN

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Let something happen ``seconds`` after the beginning, whatever the process does then."""
        self.loop.outside.call_at(BEGIN + seconds, call)

    def freeze(self, seconds: float) -> None:
        """Stop the process, as SIGSTOP or a laptop's sleep does. Network and brokers go on."""
        self.loop.pass_time(seconds)


def _network_client(settings: ClientSettings, *given: Any) -> NetworkClient:
    """A client that resolves the names of simulated brokers."""
    connection = settings.connection
    socket = connection.socket._replace(resolve=_resolve)
    return NetworkClient(settings._replace(connection=connection._replace(socket=socket)), *given)


async def _resolve(host: str, port: int) -> list[tuple[str, int]]:
    if not host.endswith(_SUFFIX):
        raise BrokerConnectionError(
            f"the name {host!r} can't be resolved in a simulated world: use its bootstrap_servers"
        )
    return [(host, port)]


@contextmanager
def simulate(
    seed: int = 0, brokers: int = 3, topics: Mapping[str, int] | None = None
) -> Iterator[SimulatedWorld]:
    """A Kafka cluster in memory, and the event loop of an application that uses it.

    ::

        def test_orders_survive_a_crash():
            with simulate(seed=7, topics={"orders": 6}) as world:
                world.at(0.5, partial(world.cluster.crash, 2))
                world.run(place_orders(world.cluster.bootstrap_servers))
                assert len(world.records("orders")) == 100

    Producers, readers and admins that are made inside of the block live in the world, without a
    change of the application. Its clock is virtual: ``asyncio.sleep(3600)`` takes no time. The same
    seed gives the same run. ``topics`` are names and numbers of partitions.
    """
    world = SimulatedWorld(seed, brokers)
    for name, partitions in (topics or {}).items():
        world.cluster.create_topic(name, partitions)
    with world.entered():
        yield world
