"""The transport to a broker: TCP to one of its addresses, through a proxy or not, and TLS where it
is configured."""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from aioproducer.engine.network.forked_sockets import replace_socket
from aioproducer.engine.network.resolve import Address, interleaved, resolve
from aioproducer.errors import AuthenticationError, BrokerConnectionError, WrongLoopError
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.foundation.wording import duration
from aioproducer.model import Peer

if TYPE_CHECKING:
    from aioproducer.auth.tls import TlsContexts
    from aioproducer.config.proxy_url import Proxy
    from aioproducer.engine.network.tunnel import Tunnel

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
    from aioproducer.engine.network.tunnel import Tunnel

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
