"""The fakes of these tests are judged first: by other clients, and at a bare socket."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

from aioproducer.testing import FaultProxy
from aioproducer.testing.certificates import Authority
from aioproducer.testing.fault_proxy import (
    END,
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Delay,
    Fault,
    FaultScript,
    HalfClose,
    NotKafkaError,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)
from aioproducer.testing.fault_proxy.proxy import abort
from tests.support.inside import all_tasks

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartProxy, StartServer
    from tests.support.fake_kafka import FakeKafka
    from tests.support.tcp_server import TcpServer


async def test_aiokafka_is_content_with_it(start_kafka: StartKafka) -> None:
    kafka = await start_kafka(2, {"orders": 2})
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True
    ) as producer:
        for number in range(5):
            sent = await producer.send_and_wait("orders", b"%d" % number, partition=1)
            assert sent.offset == number
    assert kafka.values("orders", 1) == [b"0", b"1", b"2", b"3", b"4"]
    assert kafka.values("orders", 0) == []


async def test_it_checks_sequence_numbers(kafka: FakeKafka) -> None:
    kafka.answers.append(kafka.Answer(cut_after_writing=True))
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True
    ) as producer:
        assert (await producer.send_and_wait("orders", b"once")).offset == 0
    assert kafka.values("orders") == [b"once"]
    assert len(kafka.requests(0)) == 2


PATIENCE = 60.0
REQUEST, RESPONSE, CONNECTION = Way.REQUEST, Way.RESPONSE, Way.CONNECTION
PRODUCE, METADATA = ApiKey.PRODUCE, ApiKey.METADATA


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(number: int, api: int = PRODUCE) -> bytes:
    """A frame of 16 bytes."""
    return framed(api.to_bytes(2, "big") + b"\0\7" + number.to_bytes(4, "big") + b"asks")


def answer(number: int) -> bytes:
    """A frame of 14 bytes."""
    return framed(number.to_bytes(4, "big") + b"answer")


class Broker:
    """Answers each request, and keeps what each of its connections got."""

    def __init__(self, start_server: StartServer) -> None:
        self._start_server = start_server
        self.got: list[bytearray] = []
        self.ends: list[asyncio.Future[str]] = []
        self.server: TcpServer

    async def start(self) -> None:
        self.server = await self._start_server(self._handle)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = bytearray()
        end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.got.append(got)
        self.ends.append(end)
        try:
            while data := await reader.read(1):
                got += data
                if len(got) % 16 == 0:
                    writer.write(answer(int.from_bytes(got[-8:-4], "big")))
        except ConnectionResetError:
            end.set_result("reset")
        else:
            end.set_result("eof")

    async def end(self) -> str:
        """How the last connection ended."""
        return await asyncio.wait_for(asyncio.shield(self.ends[-1]), PATIENCE)


class Client:
    """A socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, *numbers: int, api: int = PRODUCE) -> None:
        self.writer.write(b"".join(request(number, api) for number in numbers))

    async def read(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE)

    async def rest(self) -> bytes:
        """To the end; a ConnectionResetError where it is one."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE)


@asynccontextmanager
async def connected(proxy: FaultProxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.fixture
async def broker(start_server: StartServer) -> Broker:
    broker = Broker(start_server)
    await broker.start()
    return broker


@pytest.fixture
async def proxy(broker: Broker, start_proxy: StartProxy) -> FaultProxy:
    return await start_proxy(broker.server.port)


async def counted(proxy: FaultProxy, fault: Fault, times: int = 1) -> None:
    async with asyncio.timeout(PATIENCE):
        await proxy.until(lambda: proxy.counts[type(fault)] == times)
    assert proxy.counts == {type(fault): times}


async def test_without_a_script_everything_passes(broker: Broker, proxy: FaultProxy) -> None:
    async with connected(proxy) as client:
        client.ask(1, 2, 3)
        assert await client.read(42) == answer(1) + answer(2) + answer(3)
    assert await broker.end() == "eof"
    assert broker.got == [request(1) + request(2) + request(3)]
    assert (proxy.accepted, proxy.counts) == (1, {})


@pytest.mark.parametrize("at", [0, 1, 4, 9, END])
@pytest.mark.parametrize("kind", [Cut, Reset])
async def test_an_end_on_the_way_of_a_response(
    broker: Broker, proxy: FaultProxy, kind: type[Cut | Reset], at: int
) -> None:
    fault = kind(at)
    proxy.add(Rule(fault, after=1))
    async with connected(proxy) as client:
        client.ask(1)
        assert await client.read(14) == answer(1)
        client.ask(2)
        passed = answer(2)[:at]
        assert await client.read(len(passed)) == passed
        if kind is Cut:
            assert await client.rest() == b""
        else:
            with pytest.raises(ConnectionResetError):
                await client.rest()
    assert await broker.end() == ("eof" if kind is Cut else "reset")
    assert broker.got == [request(1) + request(2)]
    await counted(proxy, fault)


@pytest.mark.parametrize("at", [0, 1, 4, 9, END])
async def test_a_cut_on_the_way_of_a_request(broker: Broker, proxy: FaultProxy, at: int) -> None:
    proxy.add(Rule(Cut(at), way=REQUEST, after=1))
    async with connected(proxy) as client:
        client.ask(1)
        await client.read(14)
        client.ask(2)
        assert await client.rest() == b""
    # an answer comes for the socket that is closed already, and makes an RST of the FIN
    assert await broker.end() == "eof" or at == END
    assert broker.got == [request(1) + request(2)[:at]]
    await counted(proxy, Cut())


async def test_resets_one_after_the_other(broker: Broker, proxy: FaultProxy) -> None:
    proxy.add(Rule(Reset(), way=CONNECTION, count=3))
    for _ in range(3):
        async with connected(proxy) as client:
            with pytest.raises(ConnectionResetError):
                await client.rest()
    async with connected(proxy) as client:
        client.ask(1)
        assert await client.read(14) == answer(1)
    assert broker.server.accepted == 1
    await counted(proxy, Reset(), 3)


async def test_a_delay_holds_up_what_follows(proxy: FaultProxy) -> None:
    proxy.add(Rule(Delay(3.0, at=4), METADATA))
    async with connected(proxy) as client:
        began = time.monotonic()
        client.ask(1)
        client.ask(2, api=METADATA)
        client.ask(3)
        await client.read(14 + 4)
        early = time.monotonic() - began
        assert await client.read(10 + 14) == answer(2)[4:] + answer(3)
        assert time.monotonic() - began >= 3.0 > early
    await counted(proxy, Delay(0))


async def test_a_delayed_connection(broker: Broker, proxy: FaultProxy) -> None:
    proxy.add(Rule(Delay(0.1), way=CONNECTION))
    async with connected(proxy) as client:
        began = time.monotonic()
        client.ask(1)
        assert await client.read(14) == answer(1)
        assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("way", [REQUEST, RESPONSE, CONNECTION])
async def test_a_throttled_connection(proxy: FaultProxy, way: Way) -> None:
    proxy.add(Rule(Throttle(500), way=way))
    async with connected(proxy) as client:
        began = time.monotonic()
        client.ask(*range(10))
        assert await client.read(140) == b"".join(map(answer, range(10)))
        assert time.monotonic() - began >= 0.2
    await counted(proxy, Throttle(1))


async def test_the_broker_seems_to_half_close(broker: Broker, proxy: FaultProxy) -> None:
    proxy.add(Rule(HalfClose(at=6)))
    async with connected(proxy) as client:
        client.ask(1)
        assert await client.rest() == answer(1)[:6]
        client.ask(2)
        async with asyncio.timeout(PATIENCE):
            while len(broker.got[0]) < 32:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert await broker.end() == "eof"
    assert broker.got == [request(1) + request(2)]
    await counted(proxy, HalfClose())


async def test_the_client_seems_to_half_close(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    async def answer_after_the_end(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert await reader.read() == request(1)
        writer.write(answer(1))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await start_server(answer_after_the_end)
    proxy = await start_proxy(server.port, FaultScript((Rule(HalfClose(), way=REQUEST),)))
    async with connected(proxy) as client:
        client.ask(1, 2)
        assert await client.rest() == answer(1)
    await counted(proxy, HalfClose())


async def test_a_half_closed_connection(broker: Broker, proxy: FaultProxy) -> None:
    proxy.add(Rule(HalfClose(), way=CONNECTION))
    async with connected(proxy) as client:
        client.ask(1)
        assert await client.rest() == b""
    assert broker.server.accepted == 0


@pytest.mark.parametrize("way", [REQUEST, RESPONSE, CONNECTION])
async def test_a_black_hole_takes_everything_and_stays(
    broker: Broker, proxy: FaultProxy, way: Way
) -> None:
    proxy.add(Rule(BlackHole(), way=way, after=0 if way is CONNECTION else 1))
    async with connected(proxy) as client:
        if way is not CONNECTION:
            client.ask(1)
            assert await client.read(14) == answer(1)
        client.ask(2)
        await counted(proxy, BlackHole())
        client.ask(*range(3, 1000))
        await client.writer.drain()
        if way is not CONNECTION:
            await broker.server.cut()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)
        assert proxy.connections == 1
    async with asyncio.timeout(PATIENCE):
        await proxy.until(lambda: proxy.connections == 0)
    if way is CONNECTION:
        assert broker.got == []
    else:
        assert broker.got == [request(1) + (b"" if way is REQUEST else request(2))]
    async with connected(proxy) as client:
        client.ask(5)
        assert await client.read(14) == answer(5)


async def test_single_frames_are_left_out(broker: Broker, proxy: FaultProxy) -> None:
    proxy.add(Rule(Swallow(), METADATA, REQUEST), Rule(Swallow(), PRODUCE, RESPONSE, after=1))
    async with connected(proxy) as client:
        client.ask(1, 2)
        client.ask(3, api=METADATA)
        client.ask(4)
        assert await client.read(28) == answer(1) + answer(4)
    assert await broker.end() == "eof"
    assert broker.got == [request(1) + request(2) + request(4)]
    await counted(proxy, Swallow(), 2)


@pytest.mark.parametrize("way", [REQUEST, RESPONSE])
async def test_corrupt_bytes(broker: Broker, proxy: FaultProxy, way: Way) -> None:
    proxy.add(Rule(Corrupt(at=5, count=2), PRODUCE, way))
    frame = request(1) if way is REQUEST else answer(1)
    corrupt = frame[:5] + bytes(byte ^ 0xFF for byte in frame[5:7]) + frame[7:]
    async with connected(proxy) as client:
        client.ask(1)
        got = await client.read(14)
    assert (bytes(broker.got[0]) if way is REQUEST else got) == corrupt
    await counted(proxy, Corrupt())


@pytest.mark.parametrize("length", [2**31 - 1, 0, -1])
async def test_claimed_lengths(proxy: FaultProxy, length: int) -> None:
    proxy.add(Rule(ClaimLength(length), after=1))
    async with connected(proxy) as client:
        client.ask(1, 2, 3)
        assert await client.read(14) == answer(1)
        claimed = length.to_bytes(4, "big", signed=True) + answer(2)[4:]
        assert await client.read(28) == claimed + answer(3)
    await counted(proxy, ClaimLength())


async def test_responses_are_told_apart_by_their_requests(proxy: FaultProxy) -> None:
    proxy.add(Rule(Corrupt(at=8), METADATA, after=1))
    async with connected(proxy) as client, connected(proxy) as other:
        client.ask(1, api=METADATA)
        assert await client.read(14) == answer(1)
        other.ask(1)
        assert await other.read(14) == answer(1)
        other.ask(2, api=METADATA)
        assert await other.read(14) != answer(2)


@pytest.mark.parametrize("reset", [False, True])
async def test_connections_are_ended_by_hand(
    broker: Broker, proxy: FaultProxy, reset: bool
) -> None:
    async with connected(proxy) as client:
        client.ask(1)
        await client.read(14)
        proxy.end_connections(reset=reset)
        if reset:
            with pytest.raises(ConnectionResetError):
                await client.rest()
        else:
            assert await client.rest() == b""
    assert await broker.end() == ("reset" if reset else "eof")
    assert proxy.counts == {}


async def test_nobody_behind_it(broker: Broker, start_proxy: StartProxy) -> None:
    proxy = await start_proxy()
    async with connected(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.rest()
    proxy.target = broker.server.port
    async with connected(proxy) as client:
        client.ask(1)
        assert await client.read(14) == answer(1)
    await broker.server.stop()
    async with connected(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_it_refuses_connections_while_it_is_stopped(
    broker: Broker, proxy: FaultProxy
) -> None:
    async with connected(proxy) as client:
        client.ask(1)
        await client.read(14)
        await proxy.stop()
        with suppress(ConnectionResetError):
            assert await client.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    port = proxy.port
    await proxy.start()
    assert proxy.port == port
    async with connected(proxy) as client:
        client.ask(2)
        assert await client.read(14) == answer(2)


async def test_a_client_that_speaks_something_else(broker: Broker) -> None:
    proxy = FaultProxy(broker.server.port)
    await proxy.start()
    async with connected(proxy) as client:
        client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await client.rest() == b""
    with pytest.raises(NotKafkaError, match="GET "):
        await proxy.stop()


async def test_nothing_is_left_behind(broker: Broker) -> None:
    before = all_tasks()
    script = FaultScript(
        (
            Rule(Delay(600), PRODUCE, REQUEST),
            Rule(Throttle(1), METADATA),
            Rule(BlackHole(), ApiKey.API_VERSIONS, REQUEST),
            Rule(Delay(600), way=CONNECTION, after=3),
        )
    )
    async with FaultProxy(broker.server.port, script) as proxy:
        ports = [asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(5)]
        streams = await asyncio.gather(*ports)
        for api, (_, writer) in zip((PRODUCE, METADATA, 18, 5, 5), streams, strict=True):
            writer.write(request(1, api) * 100)
        await asyncio.wait_for(proxy.until(lambda: BlackHole in proxy.counts), PATIENCE)
    for reader, writer in streams:
        with suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    await broker.server.cut()
    assert all_tasks() == before
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_it_stops_while_a_client_leaves_the_goodbye_of_tls_unanswered(
    broker: Broker,
) -> None:
    authority = Authority()
    script = FaultScript((Rule(Cut()),))
    certificate = authority.issue("broker")
    proxy = FaultProxy(broker.server.port, script, tls=certificate.server_context())
    trusting = ssl.create_default_context(cadata=authority.pem)
    async with asyncio.timeout(PATIENCE), proxy:
        _, writer = await asyncio.open_connection("localhost", proxy.port, ssl=trusting)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request(1))
        await proxy.until(lambda: Cut in proxy.counts)
        assert await broker.end() == "eof"
        assert proxy.connections == 1
    assert proxy.connections == 0
    writer.transport.abort()


async def test_a_connection_that_was_closed_with_its_last_bytes_can_be_dropped() -> None:
    """asyncio's transport is closed at once if the socket takes what waits."""
    lost = asyncio.Event()

    async def served(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.transport.get_write_buffer_size():
            writer.write(bytes(65_536))
        writer.close()
        await reading
        await writer.wait_closed()
        abort(writer)
        lost.set()

    reading = asyncio.get_running_loop().create_future()
    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        reading.set_result(None)
        await asyncio.wait_for(lost.wait(), 5)
        writer.close()


async def test_a_connection_of_tls_that_is_over_is_aborted_without_an_error() -> None:
    class Over(asyncio.Transport):
        """As Python 3.11's, which has forgotten its protocol."""

        def is_closing(self) -> bool:
            return True

        def get_extra_info(self, name: str, default: Any = None) -> Any:
            raise AttributeError("'NoneType' object has no attribute '_get_extra_info'")

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    abort(asyncio.StreamWriter(Over(), protocol, reader, loop))
