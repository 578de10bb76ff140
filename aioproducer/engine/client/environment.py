"""The environment of clients: clocks, random numbers, the network. Tests replace it."""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from random import Random
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioproducer.config.addresses import Address
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.interceptors import Interceptors
from aioproducer.foundation.logs import ClientLog
from aioproducer.foundation.runtime.threads import Load, load

if TYPE_CHECKING:  # a client's start imports the network
    from aioproducer.engine.network.network_client import NetworkClient


def _real_clock() -> Callable[[], float]:
    """The system's clock that a suspended machine does not stop."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # of Linux, of macOS
        if hasattr(time, name):
            return partial(time.clock_gettime, getattr(time, name))
    return monotonic


def _network_client(*arguments: Any) -> "NetworkClient":
    from aioproducer.engine.network.network_client import NetworkClient

    return NetworkClient(*arguments)


async def _resolve(host: str, port: int) -> list[Address]:
    from aioproducer.engine.network.transport import resolve

    return await resolve(host, port)


class Environment(NamedTuple):
    """The parts of a producer, reader or admin that reach outside of it."""

    clock: Callable[[], float] = monotonic
    """Seconds, for every deadline and duration. Linux stops it while the machine is suspended."""
    real_clock: Callable[[], float] = _real_clock()
    """Seconds as the brokers count them: it goes on while the machine is suspended."""
    wall_clock_ns: Callable[[], int] = time_ns
    """Nanoseconds since the epoch, for timestamps of records and the expiry of tokens. The
    compiled fast path reads the system's clock itself if this is ``time_ns``."""
    random: Callable[[], Random] = Random
    """Makes the generator for backoffs and the choice of partitions."""
    network: "Callable[..., NetworkClient]" = _network_client
    """Makes the client of the brokers; it takes the arguments of :class:`NetworkClient`."""
    resolve: Callable[[str, int], Awaitable[list[Address]]] = _resolve
    """Looks a host and port up: every address. Raises :class:`BrokerConnectionError`."""
    wakeup: Callable[[Callable[[], float]], Wakeup] = Wakeup
    """Makes the sleep of the sender, by ``clock``."""
    interceptors: Callable[[Sequence[Any], ClientLog | None], Interceptors] = Interceptors
    """Makes the chain of a producer's interceptors."""
    load: Callable[[Iterable[Load]], Awaitable[None]] = load
    """Imports what a client may need after its start."""


SYSTEM: Final = Environment()
"""The machine's clocks, its random numbers and real brokers."""

_CURRENT: Final = ContextVar("aioproducer.environment", default=SYSTEM)


def current_environment() -> Environment:
    """The environment of the clients that are made in the present context."""
    return _CURRENT.get()


@contextmanager
def use_environment(environment: Environment) -> Iterator[None]:
    """Give ``environment`` to the clients that are made inside of the block, and by its tasks."""
    token = _CURRENT.set(environment)
    try:
        yield
    finally:
        _CURRENT.reset(token)
