"""A connection to a broker whose side of it is a script of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from random import Random
from sys import maxsize
from typing import Any, TypeAlias

from aioproducer.engine.network.connection import (
    Connection,
    ConnectionEvents,
    ConnectionSettings,
)
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import EncodedPayload, InFlightRequest
from aioproducer.engine.network.transport import SocketSettings
from aioproducer.engine.network.versions import UNCHECKED, BrokerIdentity
from aioproducer.engine.protocol import Api
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.model import BootstrapServer, Node
from tests.support.kio_messages import (
    api_of,
    encode,
    milliseconds,
    request_module,
    response_module,
    version_of,
)

NOTHING = milliseconds(0)


LONG, SHORT = 5.0, 0.02


METADATA_V9: Any = request_module(Api.METADATA, 9)


class Peer:
    """The broker's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The next request, its header in front."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def number(self) -> bytes:
        """The correlation id of the next request."""
        return (await self.request())[4:8]

    def frame(self, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + body

    def say(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(map(self.frame, bodies)))

    async def handshake(self) -> None:
        self.say(await self.number() + API_VERSIONS)


def put(exchange: Exchange, data: bytes) -> int:
    """Do what a transport does that has read ``data``."""
    place = exchange.get_buffer(-1)
    place[: len(data)] = data
    exchange.buffer_updated(len(data))
    return len(data)


Script: TypeAlias = Callable[[Peer], Awaitable[None]]


def request_of(entity: Any) -> EncodedPayload:
    """One of kio's requests, to be sent."""
    kind = type(entity)
    return EncodedPayload(api_of(kind), version_of(kind), (encode(entity),))


def api_versions(version: int) -> bytes:
    parts: Any = response_module(Api.API_VERSIONS, version)
    late = {} if version < 1 else {"throttle_time": NOTHING}
    ranges = tuple(
        parts.ApiVersion(api_key=api, min_version=0, max_version=9) for api in (0, 3, 18)
    )
    return encode(parts.ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=ranges, **late))


API_VERSIONS = api_versions(4)


def metadata(cluster: str | None) -> bytes:
    """The body of a Metadata response v9, after the correlation id."""
    parts: Any = response_module(Api.METADATA, 9)
    return b"\0" + encode(
        parts.MetadataResponse(
            throttle_time=NOTHING, brokers=(), cluster_id=cluster, controller_id=1, topics=()
        )
    )


class Owner:
    """Runs one connection and keeps what it tells."""

    def __init__(
        self,
        node: Node | BootstrapServer,
        *,
        identity: BrokerIdentity | None = None,
        first_version: int = UNCHECKED,
        given: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        settings: dict[str, Any] = {
            "client_id": "tester",
            "software_version": "1.2.3",
            "request_timeout": LONG,
            "socket": SocketSettings(-1, -1),
            "max_idle": inf,
        }
        self.now = 100.0
        self.ready = asyncio.Event()
        self.renewed = asyncio.Event()
        self.respond: Callable[..., None] = self._on_response
        self.answers: asyncio.Queue[tuple[Any, Any, int]] = asyncio.Queue()
        self.left: list[Any] = []
        self.anomalies: list[str] = []
        self.connection = Connection(
            node,
            ConnectionSettings(**{**settings, **changes}),
            ConnectionEvents(
                ready=lambda _: self.ready.set(),
                renewed=lambda _: self.renewed.set(),
                response=lambda *told: self.respond(*told),
                written=lambda _, request: self.left.append(request.request),
                anomaly=lambda _, what: self.anomalies.append(what),
            ),
            setup_timeout=LONG,
            clock=RunningClock(lambda: self.now),
            random=Random(1),
            identity=identity,
            first_version=first_version,
            **(given or {}),
        )

    def _on_response(
        self, _: Connection, request: InFlightRequest, response: Any, n: int, now: float
    ) -> None:
        self.answers.put_nowait((request.request, response, n))

    def run(self) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(self.connection.run())

    def ask(self, name: str, *, answered: bool = True) -> int:
        payload = request_of(
            METADATA_V9.MetadataRequest(
                topics=(),
                allow_auto_topic_creation=True,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
        return self.send(payload, name, answered=answered)

    def send(self, payload: EncodedPayload, name: str, *, answered: bool = True) -> int:
        exchange = self.connection.exchange
        assert exchange is not None
        return exchange.send(payload, name, self.now, answered)

    @property
    def is_usable(self) -> bool:
        exchange = self.connection.exchange
        return exchange is not None and exchange.takes(self.now, maxsize, inf)


@asynccontextmanager
async def broker(script: Script) -> AsyncIterator[Node]:
    """A broker that follows ``script`` on each connection, and never ends one by itself."""
    done = asyncio.Event()

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            await script(Peer(reader, writer))
            await done.wait()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        task.add_done_callback(lambda _: writer.close())
        serving.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    try:
        yield Node(7, "127.0.0.1", port)
    finally:
        done.set()
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0)


def waiting(owner: Owner) -> list[str]:
    return [request.request for request in owner.connection.in_flight.take_all()]


def resolves_to(*addresses: tuple[str, int]) -> SocketSettings:
    """The settings of a socket for a name that has these addresses."""

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return list(addresses)

    return SocketSettings(-1, -1, resolve=resolve)
