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
    """A TCP proxy on loopback in front of the broker at `target`, a port; an async context manager.

    You can set `target` later, and change it. Connections without a listening target are reset. The
    proxy's `port` is known once the context is entered; 0 chooses a free one. Leaving the context
    closes all connections. If a peer did not speak Kafka, or the proxy failed, it raises that
    error.

    `tls`: clients use TLS to the proxy, because it must read frames. `target_tls`: the proxy uses
    TLS to the broker, whose certificate must name ``localhost``.
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
        """How often each fault ran, to its end or to the connection's."""
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
        """Replace the script with this one. Black holes and throttled connections remain."""
        self._script = ScriptRun(script)

    def add(self, *rules: Rule) -> None:
        """Add rules after those of the script."""
        self._script.add(*rules)

    def end_connections(self, *, reset: bool = False) -> None:
        """Close the current connections, with FIN or RST. The counts do not include this."""
        for connection in list(self._connections):
            connection.end(reset=reset)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true. It is checked after every fault and every closed
        connection."""
        while not condition():
            await self._news.wait()

    async def start(self) -> None:
        """Listen; after :meth:`stop`, on the same port again."""
        self._tasks = TaskOwner(self._failed)
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._tls, "ssl_shutdown_timeout": _GOODBYE}
        self._server = await asyncio.start_server(self._accept, _HOST, self.port, **options)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections, close the current ones, and raise the first error, if any."""
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
