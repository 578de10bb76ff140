"""FaultProxy: the listener in front of one broker, its connections, its script and its counts.

A :class:`ProxiedConnection` reads whole frames and carries out the steps of their faults.
:class:`FaultProxies` puts a proxy in front of every broker of a cluster.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, Self, assert_never

from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.testing.fault_proxy.faults import (
    LENGTH_BYTES,
    Correlations,
    End,
    Fault,
    FaultScript,
    GoDark,
    NotKafkaError,
    Pace,
    Pass,
    Rule,
    ScriptRun,
    ShutDown,
    Step,
    Wait,
    Way,
    frame_length,
    steps,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster

__all__ = [
    "ProxiedConnection",
    "abort",
    "FaultProxy",
    "FaultProxies",
]


_HOST: Final = "127.0.0.1"
_CHUNKS_PER_SECOND: Final = 50
_READ_BYTES: Final = 65536
# On, for 0 seconds: close() drops what was not sent and resets the connection.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

Script = Callable[[], ScriptRun]
Happened = Callable[[Fault], None]


def abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, with all unsent bytes; nothing if its socket is closed.

    asyncio's transports raise AttributeError then: one if bytes waited when it was told to close,
    and that of TLS, in Python 3.11, for every question.
    """
    with suppress(AttributeError):
        connected = writer.get_extra_info("socket")
        if connected is None or connected.fileno() >= 0:
            writer.transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, so that the other side gets a reset."""
    with suppress(AttributeError):
        connected = writer.get_extra_info("socket")
        if connected is not None and connected.fileno() >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


class _OverError(Exception):
    """One direction of the connection has ended."""


class _OneWay:
    """The bytes to one side, and the pace at which they are written."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.bytes_per_second: int | None = None
        self.shut = False

    async def write(self, data: bytes) -> None:
        if self.bytes_per_second is None:
            self.writer.write(data)
            await self.writer.drain()
            return
        size = max(1, self.bytes_per_second // _CHUNKS_PER_SECOND)
        for start in range(0, len(data), size):
            chunk = data[start : start + size]
            self.writer.write(chunk)
            await self.writer.drain()
            await asyncio.sleep(len(chunk) / self.bytes_per_second)

    def shut_down(self) -> None:
        self.shut = True
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:  # TLS ends without close_notify
            self.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool) -> None:
        if reset:
            _reset(self.writer)
        if not self.writer.is_closing():
            self.writer.close()


class ProxiedConnection:
    """A client, the broker behind it, and the script between them.

    `script` is called for each frame, so a new script meets the present connections.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        script: Script,
        happened: Happened,
    ) -> None:
        self._client = reader
        self._to_client = _OneWay(writer)
        self._to_broker: _OneWay | None = None
        self._script = script
        self._happened = happened
        self._correlations = Correlations()
        self._dark = False
        self._ended = False

    async def run(self, port: int | None, tls: ssl.SSLContext | None = None) -> None:
        """Run until both sides are closed. Raises NotKafkaError; `port` None: no broker.

        `tls`: the broker speaks TLS.
        """
        try:
            if (fault := self._script().decide(Way.CONNECTION)) is not None:
                await self._carry_out(fault, b"", self._to_client)
            if self._dark or self._to_client.shut or self._ended:
                await self._swallow(self._client)
            else:
                await self._connect(port, tls)
        except (OSError, EOFError):
            self.end(reset=True)
        finally:
            self._ended = True
            for side in self._sides():
                if not side.writer.is_closing():  # asyncio's TLS can't be aborted after two calls
                    side.writer.close()
                with suppress(OSError):
                    await side.writer.wait_closed()

    def end(self, *, reset: bool) -> None:
        """Close both sides, once: after the written bytes or, with `reset`, without them."""
        if not self._ended:
            self._ended = True
            for side in self._sides():
                side.close(reset=reset)

    def abort(self) -> None:
        """Drop both sides, with all unsent bytes; :meth:`run` ends soon after."""
        self._ended = True
        for side in self._sides():
            abort(side.writer)

    def _sides(self) -> list[_OneWay]:
        return [self._to_client] + ([self._to_broker] if self._to_broker else [])

    async def _connect(self, port: int | None, tls: ssl.SSLContext | None) -> None:
        if port is None:
            raise ConnectionRefusedError
        name = "localhost" if tls else None
        broker, writer = await asyncio.open_connection(_HOST, port, ssl=tls, server_hostname=name)
        to_broker = self._to_broker = _OneWay(writer)
        to_broker.bytes_per_second = self._to_client.bytes_per_second
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._until_over(self._requests(self._client, to_broker)))
                ways.create_task(self._until_over(self._responses(broker)))
        except* _OverError:
            pass
        except* NotKafkaError as errors:
            raise errors.exceptions[0] from None

    async def _until_over(self, way: Awaitable[None]) -> None:
        """Either way's end is the connection's: the error ends the other's task."""
        try:
            await way
        except ConnectionError:
            self.end(reset=True)
        except (OSError, EOFError):
            pass
        raise _OverError

    async def _requests(self, client: asyncio.StreamReader, to_broker: _OneWay) -> None:
        while (frame := await self._next(client, to_broker)) is not None:
            api = self._correlations.request(frame)
            await self._frame(frame, Way.REQUEST, api, to_broker)
        await self._swallow(client)

    async def _responses(self, broker: asyncio.StreamReader) -> None:
        try:
            while (frame := await self._next(broker, self._to_client)) is not None:
                api = self._correlations.response(frame)
                await self._frame(frame, Way.RESPONSE, api, self._to_client)
            await self._swallow(broker)
        except (OSError, EOFError):
            if not self._dark:
                raise
        if self._dark:
            await _for_ever()  # a black hole hides the broker's end from the client

    async def _next(self, reader: asyncio.StreamReader, way: _OneWay) -> bytes | None:
        """The next frame; None: no more frames are passed. Raises EOFError, NotKafkaError."""
        if self._ended or self._dark or way.shut:
            return None
        prefix = await reader.readexactly(LENGTH_BYTES)
        return prefix + await reader.readexactly(frame_length(prefix))

    async def _frame(self, frame: bytes, way: Way, api: int | None, to: _OneWay) -> None:
        if self._dark:
            return
        fault = self._script().decide(way, api)
        if fault is None:
            await to.write(frame)
        else:
            await self._carry_out(fault, frame, to)

    async def _carry_out(self, fault: Fault, frame: bytes, to: _OneWay) -> None:
        try:
            for step in steps(fault, frame, self._script().random):
                await self._do(step, to)
        finally:
            self._happened(fault)

    async def _do(self, step: Step, to: _OneWay) -> None:
        match step:
            case Pass(data):
                await to.write(data)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Pace(bytes_per_second):
                to.bytes_per_second = bytes_per_second
            case ShutDown():
                to.shut_down()
            case GoDark():
                self._dark = True
            case End(reset):
                self.end(reset=reset)
            case _:
                assert_never(step)

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while not self._ended and await reader.read(_READ_BYTES):
            pass


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


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


class FaultProxies(Mapping[int, FaultProxy]):
    """The proxies by broker id, 1 to `brokers`; an async context manager.

    They listen before the cluster starts, because Kafka needs its advertised ports::

        async with (
            FaultProxies(3) as proxies,
            KafkaCluster(3, advertised_ports=proxies.ports) as cluster,
        ):
            proxies.lead_to(cluster)

    For a `MockCluster`, :meth:`lead_to` sets the advertised addresses. Clients connect to
    :attr:`bootstrap_servers`. `tls` and `target_tls`: see :class:`FaultProxy`.
    """

    def __init__(
        self,
        brokers: int,
        *,
        tls: ssl.SSLContext | None = None,
        target_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._proxies = {
            number: FaultProxy(tls=tls, target_tls=target_tls) for number in range(1, brokers + 1)
        }
        self._stack = AsyncExitStack()

    @property
    def ports(self) -> dict[int, int]:
        """The port of each proxy, for KafkaCluster's `advertised_ports`."""
        return {number: proxy.port for number, proxy in self._proxies.items()}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the proxies."""
        return ",".join(proxy.address for proxy in self._proxies.values())

    @property
    def counts(self) -> Counter[type[Fault]]:
        """How often each fault was applied, over all proxies."""
        return sum((proxy.counts for proxy in self._proxies.values()), Counter())

    def lead_to(self, cluster: KafkaCluster | MockCluster) -> None:
        """Put each proxy in front of the broker with its number. Raises ValueError if there is
        none."""
        for number, proxy in self._proxies.items():
            if isinstance(cluster, KafkaCluster):
                proxy.target = cluster.broker(number).port
            else:
                _, proxy.target = cluster.broker_address(number)
                cluster.set_broker_address(number, "127.0.0.1", proxy.port)

    def __getitem__(self, broker: int) -> FaultProxy:
        return self._proxies[broker]

    def __iter__(self) -> Iterator[int]:
        return iter(self._proxies)

    def __len__(self) -> int:
        return len(self._proxies)

    async def __aenter__(self) -> Self:
        async with self._stack:
            for proxy in self._proxies.values():
                await self._stack.enter_async_context(proxy)
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
