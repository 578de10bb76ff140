"""A connection to a broker through a proxy, up to the first byte of the broker's own protocol."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from aioproducer.config.proxy_url import Proxy
from aioproducer.engine.network.forked_sockets import leave_socket_to_parent
from aioproducer.engine.network.proxy_handshake import handshake
from aioproducer.engine.network.resolve import Address
from aioproducer.errors import BrokerConnectionError
from aioproducer.model import address_of


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
