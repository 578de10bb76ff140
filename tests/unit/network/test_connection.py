"""One connection against a scripted broker on loopback."""

from __future__ import annotations

import asyncio
import datetime
import errno
import importlib
import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, TypeAlias, cast

import pytest
import uvloop
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32Timedelta

from aioproducer.errors import BrokerConnectionError, NetworkError, ProtocolError
from aioproducer.model import BootstrapId, BootstrapServer, Node
from aioproducer.network.apis import Api, request_module, response_type
from aioproducer.network.connection import (
    Connection,
    ConnectionEvents,
    ConnectionSettings,
    ConnectionState,
)
from aioproducer.network.in_flight import InFlightRequest
from aioproducer.network.transport import SocketSettings

NOTHING = i32Timedelta.parse(datetime.timedelta(0))
LONG, SHORT = 5.0, 0.02
API_VERSIONS_V4: Any = request_module(Api.API_VERSIONS, 4)
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


Script: TypeAlias = Callable[[Peer], Awaitable[None]]


def encoded(entity: Any) -> bytes:
    wire = io.BytesIO()
    entity_writer(type(entity))(wire, entity)
    return wire.getvalue()


def api_versions(version: int) -> bytes:
    parts: Any = importlib.import_module(response_type(Api.API_VERSIONS, version).__module__)
    late = {} if version < 1 else {"throttle_time": NOTHING}
    ranges = tuple(
        parts.ApiVersion(api_key=api, min_version=0, max_version=9) for api in (0, 3, 18)
    )
    return encoded(parts.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=ranges, **late))


API_VERSIONS = api_versions(4)


def metadata(cluster: str) -> bytes:
    """The body of a Metadata response v9, after the correlation id."""
    parts: Any = importlib.import_module(response_type(Api.METADATA, 9).__module__)
    return b"\0" + encoded(
        parts.MetadataResponse(
            throttle_time=NOTHING, brokers=(), cluster_id=cluster, controller_id=1, topics=()
        )
    )


class Owner:
    """Runs one connection and keeps what it tells."""

    def __init__(self, node: Node | BootstrapServer, **changes: Any) -> None:
        settings: dict[str, Any] = {
            "client_id": "tester",
            "software_version": "1.2.3",
            "request_timeout": LONG,
            "socket": SocketSettings(-1, -1),
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
                written=lambda _, request: self.left.append(request.context),
                anomaly=lambda _, what: self.anomalies.append(what),
            ),
            setup_timeout=LONG,
            clock=lambda: self.now,
            random=Random(1),
        )

    def _on_response(self, _: Connection, request: InFlightRequest, response: Any, n: int) -> None:
        self.answers.put_nowait((request.context, response, n))

    def run(self) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(self.connection.run())

    def ask(self, context: str, *, answered: bool = True) -> int:
        request = METADATA_V9.MetadataRequest(
            topics=(),
            allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        return self.connection.send(Api.METADATA, request, context, timeout=30.0, answered=answered)


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


async def end_of(script: Script, **settings: Any) -> tuple[NetworkError, Owner]:
    """Why a connection to such a broker ended, after one request if it became ready."""
    async with broker(script) as node:
        owner = Owner(node, **settings)
        running = owner.run()
        ready = asyncio.get_running_loop().create_task(owner.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            owner.ask("first")
        ready.cancel()
        reason = await asyncio.wait_for(running, LONG)
    assert owner.connection.state is ConnectionState.CLOSED
    assert not owner.connection.usable
    assert isinstance(reason, NetworkError)
    return reason, owner


def waiting(owner: Owner) -> list[str]:
    return [request.context for request in owner.connection.in_flight.clear()]


# --- a good broker ------------------------------------------------------------------------------


async def test_the_handshake_says_who_we_are_and_then_requests_may_be_sent() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        peer.say(seen[0][4:8] + API_VERSIONS)

    async with broker(script) as node:
        owner = Owner(node)
        assert not owner.connection.usable
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        assert owner.connection.usable
        assert owner.connection.was_ready
        assert owner.connection.versions.choose(Api.METADATA) == 9
        owner.connection.abort(BrokerConnectionError("enough"))
        assert str(await running) == "enough"
    header, used = entity_reader(RequestHeader)(seen[0], 0)
    assert (header.request_api_key, header.request_api_version) == (18, 4)
    assert header.client_id == "tester"
    said, _ = entity_reader(API_VERSIONS_V4.ApiVersionsRequest)(seen[0], used)
    assert (said.client_software_name, said.client_software_version) == ("aioproducer", "1.2.3")


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
async def test_responses_are_matched_in_order_however_they_are_cut(chunk: int) -> None:
    sizes: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        numbers = [await peer.number() for _ in range(3)]
        bodies = [number + metadata(f"c{index}") for index, number in enumerate(numbers)]
        sizes.extend(len(body) + 4 for body in bodies)
        stream = b"".join(map(peer.frame, bodies))
        for start in range(0, len(stream), chunk):
            peer.writer.write(stream[start : start + chunk])
            await asyncio.sleep(0)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        owner.now = 107.0
        for context in ("one", "two", "three"):
            owner.ask(context)
        assert len(owner.connection.in_flight) == 3
        assert owner.connection.in_flight.next_deadline() == 137.0
        owner.now = 109.0
        answers = [await asyncio.wait_for(owner.answers.get(), LONG) for _ in range(3)]
        said = [(context, [*each.pieces()][-1].fields) for context, each, _ in answers]
        assert [(context, each["cluster_id"]) for context, each in said] == [
            ("one", "c0"),
            ("two", "c1"),
            ("three", "c2"),
        ]
        assert [size for _, _, size in answers] == sizes
        assert owner.connection.last_used == 109.0
        assert len(owner.connection.in_flight) == 0
        running.cancel()


async def test_a_request_without_answer_is_not_waited_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        await peer.request()
        peer.say(await peer.number() + metadata("c"))

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        size = owner.ask("unanswered", answered=False)
        assert size > 20
        owner.ask("answered")
        assert (await asyncio.wait_for(owner.answers.get(), LONG))[0] == "answered"
        assert owner.left == ["unanswered"]
        assert len(owner.connection.in_flight) == 0
        running.cancel()


async def test_a_request_without_answer_is_in_flight_until_it_has_left() -> None:
    reads = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.handshake()
        transport = cast(asyncio.Transport, peer.writer.transport)
        transport.pause_reading()
        await reads.wait()
        transport.resume_reading()
        while await peer.reader.read(65536):
            pass

    async with broker(script) as node:
        owner = Owner(node, socket=SocketSettings(4096, -1))
        running = owner.run()
        await owner.ready.wait()
        sent = stuck = 0
        while not stuck or stuck != len(owner.connection.in_flight):
            for _ in range(1_000):
                owner.ask(f"number {sent}", answered=False)
                sent += 1
            stuck = len(owner.connection.in_flight)
            await asyncio.sleep(0.01)
        assert owner.left == [f"number {each}" for each in range(sent - stuck)]
        assert owner.connection.in_flight.next_deadline() == owner.now + 30.0
        reads.set()
        async with asyncio.timeout(LONG):
            while len(owner.connection.in_flight):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert owner.left == [f"number {each}" for each in range(sent)]
        running.cancel()


async def test_correlation_ids_start_again_before_they_become_negative() -> None:
    numbers: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        for _ in range(2):
            number = await peer.number()
            numbers.append(int.from_bytes(number, "big", signed=True))
            peer.say(number + metadata("c"))

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        owner.connection._correlation_id = 2**31 - 2
        for _ in range(2):
            owner.ask("x")
            await asyncio.wait_for(owner.answers.get(), LONG)
        assert numbers == [2**31 - 1, 0]
        running.cancel()


async def test_socket_options() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node, socket=SocketSettings(20_000, 30_000))
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection._writer is not None
        sock = owner.connection._writer.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert 20_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 80_000
        assert 30_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 120_000
        running.cancel()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            b"\0\x23" + bytes.fromhex("01 0012 0000 0002 00000000"), id="librdkafka's mock cluster"
        ),
        pytest.param(b"\0\x23" + bytes(4), id="no versions"),
    ],
)
async def test_a_broker_that_does_not_know_our_api_versions(refusal: bytes) -> None:
    versions: list[int] = []

    async def script(peer: Peer) -> None:
        for body in (refusal, api_versions(0)):
            request = await peer.request()
            versions.append(int.from_bytes(request[2:4], "big"))
            peer.say(request[4:8] + body)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        assert versions == [4, 0]
        assert owner.connection.versions.choose(Api.METADATA) == 9
        running.cancel()


# --- a bad one ----------------------------------------------------------------------------------


def after_handshake(reply: Callable[[bytes], bytes], *, close: bool = False) -> Script:
    """Answers the first request with raw bytes made from its correlation id."""

    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.writer.write(reply(await peer.number()))
        if close:
            peer.writer.close()

    return script


def at_once(reply: bytes, *, close: bool = False) -> Script:
    """Answers the handshake with raw bytes."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(reply)
        if close:
            peer.writer.close()

    return script


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("reply", "close", "kind", "said"),
    [
        pytest.param(
            lambda n: framed(b"\0\0\0\x63" + metadata("c")),
            False,
            ProtocolError,
            "correlation id 99, but 2 was next",
            id="wrong correlation id",
        ),
        pytest.param(
            lambda n: framed(n + b"\xff" * 40), False, ProtocolError, "understood", id="garbage"
        ),
        pytest.param(
            lambda n: b"\x7f\xff\xff\xff" + n, False, ProtocolError, "2147483647", id="giant"
        ),
        pytest.param(
            lambda n: b"\xff\xff\xff\xff" + n, False, ProtocolError, "of -1 bytes", id="negative"
        ),
        pytest.param(lambda n: b"\0\0\0\3" + n, False, ProtocolError, "of 3 bytes", id="tiny"),
        pytest.param(
            lambda n: framed(n + metadata("c"))[:-5],
            True,
            BrokerConnectionError,
            r"inside a response \(\d+ bytes",
            id="half a frame",
        ),
        pytest.param(
            lambda n: b"\0\0", True, BrokerConnectionError, "inside a response", id="half a length"
        ),
        pytest.param(
            lambda n: b"", True, BrokerConnectionError, "closed the connection", id="closed"
        ),
    ],
)
async def test_any_doubt_ends_the_connection_and_the_request_is_not_answered(
    reply: Callable[[bytes], bytes], close: bool, kind: type, said: str
) -> None:
    reason, owner = await end_of(after_handshake(reply, close=close))
    assert type(reason) is kind
    with pytest.raises(kind, match=said):
        raise reason
    assert "broker 7 (127.0.0.1:" in str(reason)
    assert waiting(owner) == ["first"]
    assert owner.answers.empty()
    assert owner.connection.was_ready


async def test_bytes_left_over_are_ignored_and_told() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        for rest in (b"\0", b"\0\0", b""):
            peer.say(await peer.number() + metadata("c") + rest)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        for context in ("a", "b", "c"):
            owner.ask(context)
            name, answer, _ = await owner.answers.get()
            assert name == context
            assert [*answer.pieces()][-1].fields["cluster_id"] == "c"
        assert owner.anomalies == ["METADATA v9 responses end with unknown bytes"] * 2
        assert owner.connection.usable
        owner.connection.abort(BrokerConnectionError("done"))
        await running


async def test_bytes_left_over_behind_what_is_read_at_once_are_told_too() -> None:
    kind = response_type(Api.PRODUCE, 9)
    parts: Any = importlib.import_module(kind.__module__)
    produced = b"\0" + encoded(parts.ProduceResponse(responses=(), throttle_time=NOTHING))

    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + produced + b"\0")

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        request = request_module(Api.PRODUCE, 9).ProduceRequest(
            transactional_id=None, acks=i16(1), timeout=NOTHING, topic_data=()
        )
        owner.connection.send(Api.PRODUCE, request, "produce", timeout=30.0, answered=True)
        name, answer, _ = await owner.answers.get()
        assert (name, type(answer)) == ("produce", kind)
        assert owner.anomalies == ["PRODUCE v9 responses end with unknown bytes"]
        assert owner.connection.usable
        running.cancel()


async def test_metadata_that_is_wrong_where_it_is_read_later_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c")[:-3])

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        owner.ask("second")
        _, answer, _ = await owner.answers.get()
        assert owner.connection.usable
        with pytest.raises(ProtocolError, match="can't be understood"):
            list(answer.read({"orders"}))
        assert not owner.connection.usable
        reason = await asyncio.wait_for(running, LONG)
        assert type(reason) is ProtocolError
        assert "broker 7 (127.0.0.1:" in str(reason)
        assert "can't be understood" in str(reason)
        assert waiting(owner) == ["second"]
        with pytest.raises(ProtocolError):  # nor does it matter that it has ended
            list(answer.read({"orders"}))


async def test_an_answer_that_its_reader_refuses_counts_as_none() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c"))

    def refuse(*_: Any) -> None:
        raise ProtocolError("it can't be true")

    async with broker(script) as node:
        owner = Owner(node)
        owner.respond = refuse
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        reason = await running
        assert type(reason) is ProtocolError
        assert "it can't be true" in str(reason)
        assert waiting(owner) == ["first"]


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(0, 0, 9), (3, 68, 1)], "METADATA versions 68 to 1"),
        ([(0, 9, 8), (3, 0, 9)], "PRODUCE versions 9 to 8"),
        ([(0, 0, 9), (3, 0, 3)], "METADATA versions 0 to 3, this client 4 to 13"),
        ([(0, 0, 9)], "does not support METADATA"),
        ([], "does not support METADATA"),
    ],
)
async def test_versions_that_leave_nothing_to_ask_end_the_connection(
    ranges: list[tuple[int, int, int]], said: str
) -> None:
    parts: Any = importlib.import_module(response_type(Api.API_VERSIONS, 4).__module__)
    keys = tuple(
        parts.ApiVersion(api_key=api, min_version=low, max_version=high)
        for api, low, high in ranges
    )
    spoken = parts.ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=keys, throttle_time=NOTHING
    )

    async def script(peer: Peer) -> None:
        peer.say(await peer.number() + encoded(spoken))

    reason, owner = await end_of(script)
    assert isinstance(reason, NetworkError)
    assert said in str(reason)
    assert not owner.connection.was_ready


@pytest.mark.parametrize("end", ["garbage", "end"])
async def test_nothing_is_sent_any_more_once_there_is_doubt(end: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection.usable
        assert owner.connection._reader is not None
        if end == "garbage":
            owner.connection._reader.feed_data(b"\xff\xff\xff\xff")
        else:
            owner.connection._reader.feed_eof()
        assert not owner.connection.usable, "though the connection has not noticed yet"
        assert isinstance(await asyncio.wait_for(running, LONG), NetworkError)


async def test_an_error_of_ours_is_none_of_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c"))

    def explode(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with broker(script) as node:
        owner = Owner(node)
        owner.respond = explode
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(running, LONG)


async def test_an_answer_to_nothing_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        number = await peer.number()
        peer.say(number + API_VERSIONS, number + metadata("c"))

    async with broker(script) as node:
        reason = await asyncio.wait_for(Owner(node).run(), LONG)
    assert isinstance(reason, ProtocolError)


@pytest.mark.parametrize(
    ("reply", "close", "kind", "said"),
    [
        pytest.param(b"HTTP/1.1 400 Bad\r\n\r\n", True, ProtocolError, "HTTP server", id="HTTP"),
        pytest.param(b"\x15\x03\x03\0\2\2\x32", True, ProtocolError, "speaks TLS", id="TLS"),
        pytest.param(b"", True, BrokerConnectionError, "closed the connection", id="closed"),
        pytest.param(b"\0\0\0\x0a\0\0", True, BrokerConnectionError, "inside", id="half"),
        pytest.param(b"220 mail\r\n", False, ProtocolError, "Is it a Kafka broker", id="SMTP"),
        pytest.param(
            framed(b"\0\0\0\x09" + API_VERSIONS), False, ProtocolError, "id 9, but 1", id="wrong id"
        ),
        pytest.param(
            framed(b"\0\0\0\1" + b"\0\x2a\1" + bytes(5)),
            False,
            ProtocolError,
            "INVALID_REQUEST",
            id="error",
        ),
    ],
)
async def test_what_is_no_kafka_broker_is_told_so(
    reply: bytes, close: bool, kind: type, said: str
) -> None:
    reason, owner = await end_of(at_once(reply, close=close))
    assert type(reason) is kind
    assert said in str(reason)
    assert not owner.connection.was_ready
    assert not owner.ready.is_set()


async def test_silence_after_connecting_ends_after_the_request_timeout() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    reason, owner = await end_of(script, request_timeout=SHORT)
    assert type(reason) is BrokerConnectionError
    assert "did not answer an ApiVersions request" in str(reason)
    assert not owner.connection.was_ready


async def test_a_handshake_that_drips_ends_after_the_request_timeout_too() -> None:
    async def drip(peer: Peer) -> None:
        while True:
            peer.writer.write(b"\0")
            await peer.writer.drain()
            await asyncio.sleep(SHORT / 4)

    async def slow(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(b"\0\0\x10\0")
        await drip(peer)

    reason, _ = await end_of(slow, request_timeout=SHORT)
    assert "did not answer an ApiVersions request" in str(reason)


async def test_a_reset() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        await peer.request()
        linger = b"\1\0\0\0\0\0\0\0"
        sock = peer.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        peer.writer.transport.abort()

    reason, owner = await end_of(script)
    assert type(reason) is BrokerConnectionError
    assert "broker 7" in str(reason)
    assert waiting(owner) == ["first"]


# --- connecting ---------------------------------------------------------------------------------


UNUSED = (1, 2)
"""Ports that nobody listens at."""


async def run(owner: Owner) -> BrokerConnectionError:
    reason = await asyncio.wait_for(owner.run(), LONG)
    assert type(reason) is BrokerConnectionError
    return reason


async def test_a_refused_port() -> None:
    reason = await run(Owner(BootstrapServer(BootstrapId("-1"), "127.0.0.1", UNUSED[0])))
    assert "bootstrap server 127.0.0.1:" in str(reason)
    assert "refused" in str(reason)


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
async def test_a_name_that_is_none(host: str) -> None:
    reason = await run(Owner(Node(3, host, 9092)))
    assert f"broker 3 ({host}:9092)" in str(reason)
    assert "can't be resolved" in str(reason)


async def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    reason = await run(Owner(Node(3, "kafka.test", 9092)))
    assert "broker 3 (kafka.test:9092)" in str(reason)
    assert "can't be resolved" in str(reason)


async def test_a_port_that_is_none() -> None:
    assert "70000" in str(await run(Owner(Node(3, "127.0.0.1", 70_000))))


def resolves_to(*addresses: tuple[str, int]) -> SocketSettings:
    """The settings of a socket for a name that has these addresses."""

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return list(addresses)

    return SocketSettings(-1, -1, resolve=resolve)


async def test_each_address_is_tried_until_one_answers() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        ports = [*UNUSED, node.port]
        socket = resolves_to(*(("127.0.0.1", port) for port in ports))
        owner = Owner(Node(1, "kafka", 9092), socket=socket)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        running.cancel()


async def test_when_no_address_answers_each_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    socket = resolves_to(("10.0.0.1", 1), ("127.0.0.1", 1), ("10.0.0.2", 1))
    owner = Owner(Node(1, "kafka", 9092), socket=socket)

    async def create_connection(make_protocol: Any, host: str, port: int, **_: Any) -> Any:
        if host.startswith("10."):
            await asyncio.get_running_loop().create_future()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    owner.connection._setup_timeout = SHORT
    reason = str(await run(owner))
    assert "10.0.0.1: no connection within 0.0 s" in reason
    assert "10.0.0.2: no connection within" in reason
    assert "127.0.0.1: " in reason
    assert "refused" in reason


async def test_a_resolver_that_hangs_ends_after_the_setup_timeout() -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    owner = Owner(Node(1, "kafka", 9092), socket=SocketSettings(-1, -1, resolve=resolve))
    owner.connection._setup_timeout = SHORT
    assert "'kafka' was not resolved" in str(await run(owner))


# --- ending -------------------------------------------------------------------------------------


async def test_the_first_reason_to_abort_is_the_reason() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        first = BrokerConnectionError("first")
        owner.connection.abort(first)
        assert not owner.connection.usable, "from this moment on"
        owner.connection.abort(BrokerConnectionError("second"))
        assert await asyncio.wait_for(running, LONG) is first


async def test_abort_while_connecting() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node, socket=resolves_to(("127.0.0.1", node.port)))
        reason = BrokerConnectionError("moved")
        running = owner.run()
        owner.connection.abort(reason)
        assert await asyncio.wait_for(running, LONG) is reason
        assert not owner.ready.is_set()


async def test_abort_during_the_handshake() -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()

    async with broker(script) as node:
        owner = Owner(node)
        reason = BrokerConnectionError("closed")
        running = owner.run()
        await asyncio.wait_for(asked.wait(), LONG)
        owner.connection.abort(reason)
        assert await asyncio.wait_for(running, LONG) is reason


async def test_cancelling_closes_the_socket() -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.handshake()
        with suppress(OSError):
            await peer.reader.read()
        gone.set()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert owner.connection.state is ConnectionState.CLOSED
        await asyncio.wait_for(gone.wait(), LONG)


@pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_sending_on_a_connection_that_just_ended_fails_with_it(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Its transport is closed before its reader has heard: uvloop refuses to write then."""

    async def script(peer: Peer) -> None:
        await peer.handshake()

    async def main() -> None:
        async with broker(script) as node:
            owner = Owner(node)
            running = owner.run()
            await owner.ready.wait()
            owner.ask("before")
            assert owner.connection._writer is not None
            owner.connection._writer.transport.abort()
            assert not owner.connection.usable
            for _ in range(3):
                owner.ask("after")
                await asyncio.sleep(0)
            assert isinstance(await asyncio.wait_for(running, LONG), BrokerConnectionError)
            assert waiting(owner)[:2] == ["before", "after"]

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
