"""FaultProxy: the listener before one broker, its script, and its counts."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Self

from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.testing.fault_proxy.connection import ProxiedConnection
from aioproducer.testing.fault_proxy.faults import Fault
from aioproducer.testing.fault_proxy.script import FaultScript, Rule, ScriptRun

__all__ = ["FaultProxy"]

_HOST: Final = "127.0.0.1"
_GOODBYE: Final = 1.0
"""Seconds for a client's close_notify."""


class FaultProxy:
    """A TCP proxy on loopback before the broker at `target`, a port; an async context manager.

    `target` may be set later, and again. Connections without a listening target are reset. The
    proxy's `port` is known from the start of the context; 0 takes a free one. Leaving the context
    ends every connection, and raises the error of a peer that did not speak Kafka, or of the proxy
    itself, if there was one.

    `tls`: clients speak TLS with the proxy, which has to read frames. `target_tls`: the proxy
    speaks TLS with the broker, whose certificate names ``localhost``.
    """

    def __init__(
        self,
        target: int | None = None,
        script: FaultScript | None = None,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        target_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = target
        self.port = port
        self.accepted = 0
        """The number of connections so far."""
        self.counts: Counter[type[Fault]] = Counter()
        """The number of times that each fault ran, to its end or to the connection's."""
        self._tls = tls
        self._target_tls = target_tls
        self._script = ScriptRun(script or FaultScript())
        self._server: asyncio.Server | None = None
        self._tasks = TaskOwner(self._failed)
        self._connections: set[ProxiedConnection] = set()
        self._failure: BaseException | None = None
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<FaultProxy at {self.address} before {self.target}>"

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{_HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """The number of connections now."""
        return len(self._connections)

    def play(self, script: FaultScript) -> None:
        """Forget the script, and begin this one; black holes and throttled connections stay."""
        self._script = ScriptRun(script)

    def add(self, *rules: Rule) -> None:
        """Add rules behind those of the script."""
        self._script.add(*rules)

    def end_connections(self, *, reset: bool = False) -> None:
        """End the present connections, by FIN or by RST; the counts leave this out."""
        for connection in list(self._connections):
            connection.end(reset=reset)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; checked after each fault and each connection's end."""
        while not condition():
            await self._news.wait()

    async def start(self) -> None:
        """Listen; after :meth:`stop` again on the same port."""
        self._tasks = TaskOwner(self._failed)
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._tls, "ssl_shutdown_timeout": _GOODBYE}
        self._server = await asyncio.start_server(self._accept, _HOST, self.port, **options)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections, end the present ones, and raise the first error, if any."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()
        await self._tasks.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it was on its way when stop() was called
            writer.transport.abort()
            return
        self.accepted += 1
        connection = ProxiedConnection(reader, writer, lambda: self._script, self._happened)
        self._connections.add(connection)
        self._tasks.start(self._serve(connection), f"fault-proxy-{self.port}-{self.accepted}")

    async def _serve(self, connection: ProxiedConnection) -> None:
        try:
            await connection.run(self.target, self._target_tls)
        finally:
            self._connections.discard(connection)
            self._tell()

    def _happened(self, fault: Fault) -> None:
        self.counts[type(fault)] += 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _failed(self, error: BaseException) -> None:
        self._failure = error
