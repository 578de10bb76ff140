"""The transport to a broker: its name resolved, TCP through a proxy or not, and TLS.

:func:`open_transport` tries the addresses of a name (:func:`resolve`) side by side. Through a proxy
each attempt is a :class:`Tunnel`, up to the first byte of the broker's own protocol;
``proxy_handshake.py`` has the proxies' protocols.

Parent and forked child share a connection and the event loop's epoll. A child that reads, writes,
ends TLS or takes a descriptor out of the epoll would disturb the parent, and a child that only
lives keeps the connection open after the parent's end. So the child gets dead sockets in place of
its copies, before it can do anything (:func:`leave_to_parent`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from aioproducer.errors import AuthenticationError, BrokerConnectionError, WrongLoopError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import duration, plain_logger
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.model import Peer, address_of

if TYPE_CHECKING:
    from aioproducer.auth.tls import TlsContexts
    from aioproducer.config.proxy_url import Proxy


class Connected(Protocol):
    """The protocol of an open transport."""

    @property
    def transport(self) -> asyncio.BaseTransport: ...


_CONNECTED: Final[weakref.WeakSet[Connected]] = weakref.WeakSet()
"""Not the transports: uvloop's for TLS take no weak reference."""


_BEING_SET_UP: Final[weakref.WeakSet[socket.socket]] = weakref.WeakSet()


def leave_to_parent(connected: Connected) -> None:
    """Have the socket of an open connection replaced in each forked child."""
    _CONNECTED.add(connected)


def leave_socket_to_parent(connected: socket.socket) -> None:
    """Have a socket that no transport has yet replaced in each forked child."""
    _BEING_SET_UP.add(connected)


def replace_socket(transport: asyncio.BaseTransport) -> None:
    """Put a socket without a peer in the place of the transport's own."""
    shared = transport.get_extra_info("socket")
    if shared is None or transport.is_closing():  # its descriptor may be another file's by now
        return
    _replace(shared.fileno())


def _replace(descriptor: int) -> None:
    with suppress(OSError), socket.socket() as dead:
        os.dup2(dead.fileno(), descriptor, inheritable=False)


def _replace_all() -> None:
    for connected in list(_CONNECTED):
        replace_socket(connected.transport)
    for being_set_up in list(_BEING_SET_UP):
        if (descriptor := being_set_up.fileno()) >= 0:
            _replace(descriptor)


forks.in_child(_replace_all)


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


class Tunnel:
    """One attempt to reach ``target`` through the ``proxy`` at ``address``.

    The ``target`` has a name if the proxy resolves names, else an address.
    """

    def __init__(self, proxy: Proxy, address: Address, target: Address) -> None:
        self.proxy = proxy
        self.address = address
        self.target = target
        self.awaited = "connection"
        """The next answer of the proxy, in words; of the broker, once the tunnel is open."""
        self._is_open = False

    def __str__(self) -> str:
        """The far end of what there is, for messages."""
        if self._is_open:
            return f"{address_of(*self.target)} through {self.proxy}"
        address = self.address[0]
        return f"{self.proxy}" if address == self.proxy.host else f"{self.proxy} ({address})"

    async def connect(self, check: Callable[[], None]) -> socket.socket:
        """The socket of the open tunnel, from which nothing of the broker is read.

        ``check`` is called before each step, and may raise.

        Raises:
            AuthenticationError: the proxy wants a login, or refuses the one of its URL.
            BrokerConnectionError: there is no connection.
        """
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise self._failed(error) from error
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            leave_socket_to_parent(sock)
            await asyncio.get_running_loop().sock_connect(sock, self.address)
            await self._shake_hands(sock, check)
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError) and not isinstance(error, BrokerConnectionError):
                raise self._failed(error) from error
            raise
        self.awaited = "connection with TLS"
        self._is_open = True
        return sock

    async def _shake_hands(self, sock: socket.socket, check: Callable[[], None]) -> None:
        from aioproducer.engine.network.proxy_handshake import handshake

        loop = asyncio.get_running_loop()
        steps = handshake(self.proxy, *self.target)
        step = next(steps)
        while True:
            check()
            self.awaited = step.expected
            if step.send:
                await loop.sock_sendall(sock, step.send)
            received = b""
            while len(received) < step.receive:
                check()
                received += await self._receive(sock, step.receive - len(received), step.if_closed)
            try:
                step = steps.send(received)
            except StopIteration:
                return

    async def _receive(self, sock: socket.socket, most: int, if_closed: str) -> bytes:
        """At least one byte. Bytes that have arrived are read at once, on any loop."""
        try:
            received = sock.recv(most)
        except (BlockingIOError, InterruptedError):
            received = await asyncio.get_running_loop().sock_recv(sock, most)
        if not received:
            raise BrokerConnectionError(
                f"{self} closed the connection: no {self.awaited}. {if_closed}"
            )
        return received

    def _failed(self, error: OSError) -> BrokerConnectionError:
        reason = os.strerror(error.errno) if error.errno else error
        return BrokerConnectionError(f"{self}: no {self.awaited}: {reason}")


_Stream = TypeVar("_Stream")
"""A protocol of asyncio's kind."""
_Opened: TypeAlias = tuple[asyncio.Transport, _Stream]
_Way: TypeAlias = "Address | Tunnel"
"""The broker's address, or the tunnel through a proxy."""
_Attempt: TypeAlias = asyncio.Task[tuple[_Way, _Opened[_Stream] | str]]

_CONTEXTS: Final = ThreadForEach("aioproducer-tls")
TLS_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds for the end of TLS; a broker that does not answer is cut off."""
_KEEP_ALIVE: Final = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPALIVE": 60,  # macOS's name for the same
    "TCP_KEEPINTVL": 20,
    "TCP_KEEPCNT": 5,
}
"""The system asks the other side for a sign of life after so many seconds without one, then again
every 20 seconds, and ends the connection after five questions. Load balancers silently drop
connections without traffic: Azure's after 240 seconds, AWS's after 350. Linux would ask after two
hours."""
_NO_TIMEOUT: Final = 24 * 3600.0
"""asyncio's own timer of a handshake may ring before its bytes are read."""


class SocketSettings(NamedTuple):
    """Sizes in bytes (-1: the system's own); ``tls`` None: plain text."""

    send_buffer_bytes: int
    receive_buffer_bytes: int
    tls: TlsContexts | None = None
    resolve: Callable[[str, int], Awaitable[list[Address]]] = resolve
    """Returns every address of a host and port."""
    process: int | None = None
    """The process that may connect; None: any. A forked child may not."""
    reached: dict[Address, Address] | None = None
    """The address that accepted the last connection, by host and port; None: it is forgotten."""
    proxy: Proxy | None = None
    """Every connection leads through it."""

    @property
    def forked(self) -> bool:
        """True in a forked child of the process that may connect."""
        return self.process is not None and self.process != os.getpid()


async def open_transport(
    peer: Peer,
    settings: SocketSettings,
    timeout: float,
    make_protocol: Callable[[], _Stream],
) -> _Opened[_Stream]:
    """Try the addresses of the host side by side, each for ``timeout`` seconds, TLS included.

    The address that was reached last is the first one. The next attempt begins when one has failed,
    or has taken a quarter of a second (RFC 8305, "Happy Eyeballs"). The first open connection ends
    the other attempts.

    Raises:
        BrokerConnectionError: no address accepts a connection.
        AuthenticationError: the TLS handshake failed, so another address would not help.
        WrongLoopError: the client belongs to another process.
    """
    _refuse_if_forked(settings)
    left = deque(await _ways(peer, settings, timeout))
    attempts: set[_Attempt[_Stream]] = set()
    reasons = []
    try:
        while left or attempts:
            if left:
                attempts.add(
                    new_task(_try(peer.host, left.popleft(), settings, timeout, make_protocol))
                )
            head_start = tuning.ADDRESS_HEAD_START if left else None
            ended, _ = await asyncio.wait(attempts, timeout=head_start, return_when=FIRST_COMPLETED)
            for attempt in ended:
                attempts.discard(attempt)
                way, opened = attempt.result()
                if not isinstance(opened, str):
                    _remember(peer, way, settings)
                    return opened
                reasons.append(opened)
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_abandon)
        if attempts:
            await asyncio.wait(attempts)
    raise BrokerConnectionError("; ".join(reasons))


async def _ways(peer: Peer, settings: SocketSettings, timeout: float) -> list[_Way]:
    """The ways to ``peer``, in the order of the attempts."""
    proxy = settings.proxy
    if proxy is None:
        return [*await _addresses(peer.host, peer.port, settings, timeout)]

    try:
        of_proxy = await _addresses(proxy.host, proxy.port, settings, timeout)
    except BrokerConnectionError as error:
        raise BrokerConnectionError(f"{proxy}: {error}") from error
    targets = [(peer.host, peer.port)]
    if not proxy.resolves_names:
        try:
            targets = await _addresses(peer.host, peer.port, settings, timeout)
        except BrokerConnectionError as error:
            raise BrokerConnectionError(
                f"{error}. With socks5h:// in proxy_url, {proxy} resolves names"
            ) from error
    return [Tunnel(proxy, address, target) for target in targets for address in of_proxy]


async def _addresses(
    host: str, port: int, settings: SocketSettings, timeout: float
) -> list[Address]:
    """The addresses of a host, the one first that was reached last."""
    try:
        async with PatientTimeout(timeout):
            found = interleaved(await settings.resolve(host, port))
    except TimeoutError:
        raise BrokerConnectionError(
            f"the host name {host!r} was not resolved within {duration(timeout)}"
        ) from None
    reached = (settings.reached or {}).get((host, port))
    return sorted(found, key=lambda address: address != reached)


def _remember(peer: Peer, way: _Way, settings: SocketSettings) -> None:
    """Keep the addresses that were reached, for the next connection."""
    reached = settings.reached
    if reached is None:
        return
    if isinstance(way, tuple):
        reached[peer.host, peer.port] = way
    else:
        reached[way.proxy.host, way.proxy.port] = way.address
        reached[peer.host, peer.port] = way.target


async def _try(
    name: str,
    way: _Way,
    settings: SocketSettings,
    timeout: float,
    make_protocol: Callable[[], _Stream],
) -> tuple[_Way, _Opened[_Stream] | str]:
    """An open connection by ``way``, or why there is none."""
    try:
        async with PatientTimeout(timeout):
            return way, await _open(name, way, settings, make_protocol)
    except TimeoutError:
        what = "connection" if settings.tls is None else "connection with TLS"
        if not isinstance(way, tuple):
            what = way.awaited
        return way, f"{_far_end(way)}: no {what} within {duration(timeout)}"
    except BrokerConnectionError as error:  # of a tunnel
        return way, str(error)
    except OSError as error:
        return way, _explained(error, name, _far_end(way), settings.tls)


def _far_end(way: _Way) -> str:
    """The other side, for messages."""
    return way[0] if isinstance(way, tuple) else str(way)


def _abandon(attempt: _Attempt[Any]) -> None:
    """Leave no connection open that nobody needs."""
    if not attempt.cancelled() and attempt.exception() is None:
        _, opened = attempt.result()
        if not isinstance(opened, str):
            opened[0].abort()


def _refuse_if_forked(settings: SocketSettings) -> None:
    if settings.forked:
        raise WrongLoopError(
            "the connection belongs to the process that was forked; make a client in each process"
        )


def _explained(error: OSError, name: str, address: str, tls: TlsContexts | None) -> str:
    """The reason in words. Raises it if another address can't help, as with a bad certificate."""
    if tls is not None and not isinstance(error, ConnectionRefusedError):
        from aioproducer.auth.tls_errors import explain_tls

        explained = explain_tls(error, address, host=name, options=tls.options)
        if isinstance(explained, AuthenticationError):
            raise explained from error
        return str(explained)
    return f"{address}: {os.strerror(error.errno) if error.errno else error}"


async def prepare_tls(tls: TlsContexts | None, timeout: float) -> None:
    """Read the files of TLS before the first connection needs them.

    A file that hangs for ``timeout`` seconds is left to the connections. Raises
    :class:`ConfigError` if a file can't be used.
    """
    if tls is None:
        return
    with suppress(TimeoutError):
        async with PatientTimeout(timeout):
            await asyncio.get_running_loop().run_in_executor(_CONTEXTS, tls.get)


async def _open(
    name: str,
    way: _Way,
    settings: SocketSettings,
    make_protocol: Callable[[], _Stream],
) -> _Opened[_Stream]:
    loop = asyncio.get_running_loop()
    make: Callable[[], Any] = make_protocol
    tls: dict[str, Any] = {}
    if settings.tls is not None:
        from aioproducer.auth.tls import server_name

        context = await loop.run_in_executor(_CONTEXTS, settings.tls.get)
        tls = {
            "ssl": context,
            "server_hostname": server_name(name, verified=context.check_hostname),
            "ssl_handshake_timeout": _NO_TIMEOUT,
            "ssl_shutdown_timeout": TLS_SHUTDOWN_TIMEOUT,
        }
    if isinstance(way, tuple):
        transport, protocol = await loop.create_connection(make, *way, **tls)
    else:
        sock = await way.connect(lambda: _refuse_if_forked(settings))
        transport, protocol = await loop.create_connection(make, sock=sock, **tls)
    if settings.forked:  # meanwhile
        replace_socket(transport)
        transport.abort()
        _refuse_if_forked(settings)
    _set_options(transport.get_extra_info("socket"), settings)
    return transport, protocol


def _set_options(sock: socket.socket, settings: SocketSettings) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        option = getattr(socket, name, None)  # each system has some of them
        if option is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
