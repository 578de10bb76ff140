"""The addresses of a broker's name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final, TypeAlias, TypeVar

from aioproducer.errors import BrokerConnectionError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.threads import ThreadForEach

logger = plain_logger("aioproducer.network.resolve")

_Answer = TypeVar("_Answer")

_HIGHEST_PORT: Final = 2**16 - 1
_LOOKUPS: Final = ThreadForEach("aioproducer-resolve")
"""Not asyncio's default executor, whose threads the application may keep busy. A lookup that hangs
holds up no other one: nothing else runs in its thread."""


Address: TypeAlias = tuple[str, int]
"""An address of IPv4 or IPv6, and a port."""


async def resolve(host: str, port: int) -> list[Address]:
    """Every address of ``host``, IPv4 and IPv6, in the resolver's order.

    Raises :class:`BrokerConnectionError` for a name that nobody knows, or that can't be one.
    """
    if not 0 <= port <= _HIGHEST_PORT:
        raise BrokerConnectionError(
            f"{host!r} can't be reached on port {port}: ports are 0 to 65535"
        )
    try:
        found = _numeric(host, port) or await _look_up(
            socket.getaddrinfo, _encoded(host), port, type=socket.SOCK_STREAM
        )
    except (OSError, ValueError, LookupError) as error:
        raise BrokerConnectionError(f"the name {host!r} can't be resolved: {error}") from error
    addresses = [(str(address[0]), port) for *_, address in found]
    return list(dict.fromkeys(addresses))


def interleaved(addresses: Sequence[Address]) -> list[Address]:
    """The addresses in their order, but IPv4 and IPv6 take turns: one of them may lead nowhere."""
    families: list[list[Address]] = [[], []]
    for address in addresses:
        families[(":" in address[0]) != (":" in addresses[0][0])].append(address)
    return [each for pair in zip_longest(*families) for each in pair if each is not None]


def _numeric(host: str, port: int) -> list[Any]:
    """The addresses of a host in numbers, without a look-up; none for a name."""
    if not host.isascii() or "\0" in host:
        return []
    try:
        return socket.getaddrinfo(
            _encoded(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        return []


def _encoded(host: str) -> str | bytes:
    """Python imports Unicode's tables for every host that is a ``str``."""
    return host.encode() if host.isascii() else host


async def _look_up(call: Callable[..., _Answer], *arguments: Any, **options: Any) -> _Answer:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_LOOKUPS, partial(call, *arguments, **options))


async def canonical_names(hosts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Each bootstrap host replaced by the canonical names of its addresses.

    For ``client_dns_lookup=resolve_canonical_bootstrap_servers_only`` (KIP-235). A host that can't
    be resolved is left out; raises :class:`BrokerConnectionError` if none can.
    """
    names: list[tuple[str, int]] = []
    reasons: list[str] = []
    for host, port in hosts:
        try:
            names += [(await _canonical_name(*each), port) for each in await resolve(host, port)]
        except BrokerConnectionError as error:
            logger.warning("A bootstrap server is skipped: %s", error)
            reasons.append(str(error))
    if not names:
        raise BrokerConnectionError("; ".join(reasons))
    return list(dict.fromkeys(names))


async def _canonical_name(address: str, port: int) -> str:
    try:
        name, _ = await _look_up(socket.getnameinfo, (address, port), 0)
    except OSError as error:
        raise BrokerConnectionError(f"the name of {address} can't be found: {error}") from error
    return name
