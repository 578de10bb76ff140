"""The transport to a broker: TCP to one of its addresses, and TLS where it is configured."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from aioproducer.errors import AuthenticationError, BrokerConnectionError, WrongLoopError
from aioproducer.model import Peer
from aioproducer.network.forked_sockets import replace_socket
from aioproducer.network.resolve import resolve
from aioproducer.runtime.patience import PatientTimeout
from aioproducer.runtime.threads import ThreadForEach
from aioproducer.wording import duration

if TYPE_CHECKING:
    from aioproducer.auth.tls import TlsContexts

_Stream = TypeVar("_Stream", bound=asyncio.BaseProtocol)

_CONTEXTS: Final = ThreadForEach("aioproducer-tls")
TLS_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds for the end of TLS; a broker that does not answer is cut off."""
_NO_TIMEOUT: Final = 24 * 3600.0
"""asyncio's own timer of a handshake may ring before its bytes are read."""


class SocketSettings(NamedTuple):
    """Sizes in bytes (-1: the system's own); ``tls`` None: plain text."""

    send_buffer_bytes: int
    receive_buffer_bytes: int
    tls: TlsContexts | None = None
    resolve: Callable[[str, int], Awaitable[list[tuple[str, int]]]] = resolve
    """Returns every address of a host and port."""
    process: int | None = None
    """The process that may connect; None: any. A forked child may not."""

    @property
    def forked(self) -> bool:
        """True in a forked child of the process that may connect."""
        return self.process is not None and self.process != os.getpid()


async def open_transport(
    peer: Peer,
    settings: SocketSettings,
    timeout: float,
    make_protocol: Callable[[], _Stream],
) -> tuple[asyncio.Transport, _Stream]:
    """Try every address of the host, each for ``timeout`` seconds, TLS included.

    Raises:
        BrokerConnectionError: no address accepts a connection.
        AuthenticationError: the TLS handshake failed, so another address would not help.
        WrongLoopError: the client belongs to another process.
    """
    _refuse_if_forked(settings)
    try:
        async with PatientTimeout(timeout):
            addresses = await settings.resolve(peer.host, peer.port)
    except TimeoutError:
        raise BrokerConnectionError(
            f"the host name {peer.host!r} was not resolved within {duration(timeout)}"
        ) from None
    reasons = []
    for host, port in addresses:
        try:
            async with PatientTimeout(timeout):
                return await _open(peer.host, (host, port), settings, make_protocol)
        except TimeoutError:
            what = "no connection" if settings.tls is None else "no connection with TLS"
            reasons.append(f"{host}: {what} within {duration(timeout)}")
        except OSError as error:
            reasons.append(_explained(error, peer.host, host, settings.tls))
    raise BrokerConnectionError("; ".join(reasons))


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


async def _open(
    name: str,
    address: tuple[str, int],
    settings: SocketSettings,
    make_protocol: Callable[[], _Stream],
) -> tuple[asyncio.Transport, _Stream]:
    loop = asyncio.get_running_loop()
    tls: dict[str, Any] = {}
    if settings.tls is not None:
        from aioproducer.auth.tls import server_name

        context = await loop.run_in_executor(_CONTEXTS, settings.tls.get)
        tls = {
            "ssl": context,
            "server_hostname": server_name(name),
            "ssl_handshake_timeout": _NO_TIMEOUT,
            "ssl_shutdown_timeout": TLS_SHUTDOWN_TIMEOUT,
        }
    transport, protocol = await loop.create_connection(make_protocol, *address, **tls)
    if settings.forked:  # meanwhile
        replace_socket(transport)
        transport.abort()
        _refuse_if_forked(settings)
    _set_options(transport.get_extra_info("socket"), settings)
    return transport, protocol


def _set_options(sock: socket.socket, settings: SocketSettings) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
