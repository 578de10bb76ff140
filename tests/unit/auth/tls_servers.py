"""Servers of TLS, and of other things, on a thread; and a client that says what it met.

They use blocking sockets, for asyncio's server ends a failed handshake without the alert that a
broker sends.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

from aioproducer.auth.tls import TlsContexts, TlsOptions, server_name
from aioproducer.auth.tls_errors import explain_tls

PEER = "broker 1 (localhost:9093)"
PATIENT = 20.0


class ServerThread:
    """Does ``serve`` with each connection, one after the other, on a free port."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with accepted, suppress(OSError):
                accepted.settimeout(PATIENT)
                self._serve(accepted)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENT)


class TlsServer(ServerThread):
    """Shakes hands, and sends back what comes; a refused client gets its alert."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(self._echo)
        self._context = context
        self.names: list[str | None] = []
        """What clients asked for by SNI."""
        self.clients: list[str] = []
        """The common names of their certificates."""
        context.sni_callback = lambda _, name, __: self.names.append(name)

    def _echo(self, accepted: socket.socket) -> None:
        connection = self._context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        )
        with connection:
            try:
                connection.do_handshake()
                if certificate := connection.getpeercert():
                    self.clients.append(_common_name(certificate))
                connection.sendall(connection.recv(100))
            finally:
                # What the client sent is read to its end: closing before would be a reset, which
                # could overtake the alert.
                raw = socket.socket(fileno=connection.detach())
                with raw:
                    raw.settimeout(PATIENT)
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(4096):
                        pass


def _common_name(certificate: object) -> str:
    assert isinstance(certificate, dict)
    return str(dict(each[0] for each in certificate["subject"])["commonName"])


async def talk(
    server: ServerThread,
    options: TlsOptions | TlsContexts,
    *,
    host: str = "localhost",
    timeout: float = PATIENT,
) -> bytes:
    """What the server sends back; raises what explain_tls() makes of a failure."""
    contexts = options if isinstance(options, TlsContexts) else TlsContexts(options)
    secured = False
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            server.port,
            ssl=contexts.get(),
            server_hostname=server_name(host),
            ssl_handshake_timeout=timeout,
        )
        secured = True
        try:
            writer.write(b"ping")
            reply = await reader.read(100)
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
        if not reply:
            raise asyncio.IncompleteReadError(b"", None)
    except Exception as error:
        raise explain_tls(
            error,
            PEER,
            host=host,
            options=contexts.options,
            timeout=timeout,
            secured=secured,
        ) from error
    return reply
