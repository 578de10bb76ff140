"""TLS that ends too early, is damaged, or stops: every wait has its bound, and nothing is lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import BootstrapError, Producer, ProducerError
from aioproducer.testing.certificates import Authority
from aioproducer.testing.fault_proxy import (
    ApiKey,
    Cut,
    Fault,
    FaultProxy,
    FaultScript,
    HalfClose,
    Reset,
    Rule,
    Way,
)
from tests.support.fake_kafka.logins import LOGIN, FakeLogins

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka, StartServer
    from tests.support.fake_kafka import FakeKafka

PATIENCE = 60.0
SOON = 5.0
PRODUCE = 0
VALUE = bytes(range(256)) * 400
SMALL_BUFFER = 65_536
RECORD_HEADER = 5
"""Bytes before each TLS record: its type, the version, and the length."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server_context(authority: Authority) -> ssl.SSLContext:
    return authority.issue("broker").server_context()


@pytest.fixture
def options(authority: Authority) -> dict[str, Any]:
    return {
        "security_protocol": "SSL",
        "ssl_truststore_certificates": authority.pem,
        "ssl_truststore_type": "PEM",
        "reconnect_backoff_ms": 10,
        "retry_backoff_ms": 10,
    }


class Middle:
    """A man in the middle who passes TLS on, and changes what goes to the client."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.change: Callable[[bytes], bytes | None] = lambda record: record
        """Of each TLS record; None: the connection ends here, without a goodbye."""
        self.reads = asyncio.Event()
        """While it is not set, nothing is read from the client."""
        self.reads.set()
        self.pause = 0.0
        """Seconds before each time that something is read."""
        self.connections = 0

    async def serve(self, client: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        small = socket.SO_RCVBUF, SMALL_BUFFER
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, *small)
        broker, to_broker = await asyncio.open_connection("127.0.0.1", self.target)
        there = asyncio.ensure_future(self._there(client, to_broker))
        try:
            await self._back(broker, writer)
        finally:
            there.cancel()
            with suppress(asyncio.CancelledError, OSError, EOFError):
                await there
            to_broker.transport.abort()

    async def _there(self, client: asyncio.StreamReader, broker: asyncio.StreamWriter) -> None:
        while True:
            await self.reads.wait()
            await asyncio.sleep(self.pause)
            if not (data := await client.read(65536)):
                broker.write_eof()
                return
            broker.write(data)
            await broker.drain()

    async def _back(self, broker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while True:
            head = await broker.readexactly(RECORD_HEADER)
            record = head + await broker.readexactly(int.from_bytes(head[3:], "big"))
            changed = self.change(record)
            if changed is None:
                return
            client.write(changed)
            await client.drain()


async def between(
    start_kafka: StartKafka, start_server: StartServer, context: ssl.SSLContext, **given: Any
) -> tuple[FakeKafka, Middle, str]:
    """A broker, the man in the middle, and the address of the latter."""
    kafka = await start_kafka(1, {"orders": 1}, tls=context, **given)
    middle = Middle(kafka.servers[1].port)
    server = await start_server(middle.serve)
    kafka.advertised[1] = server.port
    return kafka, middle, server.address


async def test_records_arrive_by_tls(kafka_tls: FakeKafka, options: dict[str, Any]) -> None:
    async with Producer(bootstrap_servers=kafka_tls.bootstrap_servers, **options) as producer:
        for _ in range(20):
            producer.send("orders", VALUE)
    assert kafka_tls.values("orders") == [VALUE] * 20


@pytest.fixture
async def kafka_tls(start_kafka: StartKafka, server_context: ssl.SSLContext) -> FakeKafka:
    return await start_kafka(1, {"orders": 1}, tls=server_context)


def cut_short(record: bytes) -> bytes:
    return record[: len(record) // 2]


def flip_last_bit(record: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 1])


class Once:
    """Changes one record."""

    def __init__(self, change: Callable[[bytes], bytes | None]) -> None:
        self._change = change
        self._done = False

    def __call__(self, record: bytes) -> bytes | None:
        if self._done:
            return record
        self._done = True
        return self._change(record)


@pytest.mark.parametrize("how", ["cut short", "a bit flipped", "ended without goodbye"])
async def test_a_damaged_tls_stream_ends_its_connection_and_nothing_is_lost_or_twice(
    start_kafka: StartKafka,
    start_server: StartServer,
    server_context: ssl.SSLContext,
    options: dict[str, Any],
    how: str,
) -> None:
    kafka, middle, address = await between(start_kafka, start_server, server_context)
    async with (
        asyncio.timeout(PATIENCE),
        Producer(bootstrap_servers=address, **options) as producer,
    ):
        await producer.send("orders", b"first")
        middle.change = {
            "cut short": Once(cut_short),
            "a bit flipped": Once(flip_last_bit),
            "ended without goodbye": Once(lambda record: None),
        }[how]
        before = middle.connections
        second = producer.send("orders", b"second")
        if how == "cut short":  # what follows is no TLS any more, but a reader waits for more of it
            await kafka.until(lambda: len(kafka.values("orders")) == 2)
            await kafka.servers[1].cut()
        await second
        assert middle.connections > before
    assert kafka.values("orders") == [b"first", b"second"]


@pytest.mark.parametrize("records", [0, 1, 2])
async def test_a_handshake_that_is_cut_off_is_tried_again(
    start_kafka: StartKafka,
    start_server: StartServer,
    server_context: ssl.SSLContext,
    options: dict[str, Any],
    records: int,
) -> None:
    kafka, middle, address = await between(start_kafka, start_server, server_context)
    passed = 0

    def change(record: bytes) -> bytes | None:
        nonlocal passed
        passed += 1
        return None if middle.connections <= 3 and passed % (records + 1) == 0 else record

    middle.change = change
    async with (
        asyncio.timeout(PATIENCE),
        Producer(bootstrap_servers=address, **options) as producer,
    ):
        await producer.send("orders", b"first")
    assert middle.connections > 3
    assert kafka.values("orders") == [b"first"]


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept, and say nothing; read nothing either."""
    await asyncio.get_running_loop().create_future()


async def half_a_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin a record of the handshake, and stop."""
    await reader.read(100)
    writer.write(b"\x16\x03\x03\x00\x7a\x02\x00")
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("server", [silence, half_a_hello])
async def test_a_handshake_that_stops_ends_within_its_bound(
    start_server: StartServer, options: dict[str, Any], server: Any
) -> None:
    stopping = await start_server(server)
    options |= {
        "socket_connection_setup_timeout_ms": 200,
        "socket_connection_setup_timeout_max_ms": 200,
        "max_block_ms": 600,
    }
    began = monotonic()
    async with (
        asyncio.timeout(PATIENCE),
        Producer(bootstrap_servers=stopping.address, **options) as producer,
    ):
        with pytest.raises(BootstrapError, match="no connection with TLS within 0"):
            await producer.send("orders", b"v")
        assert monotonic() - began < SOON
    assert stopping.accepted >= 2, "it was tried again"


@pytest.mark.parametrize("server", [silence, half_a_hello])
async def test_close_is_bounded_while_a_handshake_stops(
    start_server: StartServer, options: dict[str, Any], server: Any
) -> None:
    stopping = await start_server(server)
    producer = Producer(bootstrap_servers=stopping.address, **options)
    await producer.start()
    future = producer.send("orders", b"v")
    async with asyncio.timeout(PATIENCE):
        while not stopping.accepted:  # noqa: ASYNC110 -- the listener has no event
            await asyncio.sleep(0.01)
    began = monotonic()
    assert await producer.close(0.2) == 1
    assert monotonic() - began < SOON
    assert isinstance(future.exception(), ProducerError)


@pytest.mark.parametrize("acks", ["all", 0])
async def test_close_is_bounded_while_the_broker_does_not_read(
    start_kafka: StartKafka,
    start_server: StartServer,
    server_context: ssl.SSLContext,
    options: dict[str, Any],
    acks: Any,
) -> None:
    _, middle, address = await between(start_kafka, start_server, server_context)
    producer = Producer(bootstrap_servers=address, acks=acks, **options)
    await producer.start()
    await producer.send("orders", b"first")
    middle.reads.clear()
    for _ in range(200):
        producer.send("orders", VALUE)
        await asyncio.sleep(0)
    began = monotonic()
    await asyncio.wait_for(producer.close(0.5), PATIENCE)
    assert monotonic() - began < SOON


async def test_close_does_not_wait_for_a_goodbye_that_never_comes(
    start_kafka: StartKafka,
    start_server: StartServer,
    server_context: ssl.SSLContext,
    options: dict[str, Any],
) -> None:
    _, middle, address = await between(start_kafka, start_server, server_context)
    producer = Producer(bootstrap_servers=address, **options)
    await producer.start()
    await producer.send("orders", b"first")
    middle.reads.clear()
    began = monotonic()
    await asyncio.wait_for(producer.close(30), PATIENCE)
    assert monotonic() - began < SOON


@pytest.mark.parametrize("renewing", [False, True])
async def test_without_acks_close_sends_all_that_is_there(
    start_kafka: StartKafka,
    start_server: StartServer,
    server_context: ssl.SSLContext,
    options: dict[str, Any],
    renewing: bool,
) -> None:
    """Also to a slow reader, and while the login is renewed, when no more may be sent."""
    logins = FakeLogins(lifetimes=deque([0, 500 if renewing else 0]))
    kafka, middle, address = await between(start_kafka, start_server, server_context, logins=logins)
    options |= LOGIN | {"security_protocol": "SASL_SSL", "acks": 0}
    options |= {"send_buffer_bytes": SMALL_BUFFER, "receive_buffer_bytes": SMALL_BUFFER}

    def received() -> int:
        requests = kafka.requests(PRODUCE)
        return sum(
            len(partition.records)
            for request in requests
            for topic in request.body.topic_data
            for partition in topic.partition_data
        )

    async with asyncio.timeout(PATIENCE):
        producer = Producer(bootstrap_servers=address, **options)
        await producer.start()
        await producer.send("orders", b"first")
        await kafka.until_received(PRODUCE)
        middle.pause = 0.04
        futures = [producer.send("orders", bytes(900_000)) for _ in range(6)]
        if renewing:
            await asyncio.sleep(0.6)
        await producer.close(30)
        assert not any(future.exception() for future in futures)
        await kafka.until(lambda: received() > 6 * 900_000)


@pytest.mark.parametrize("fault", [Cut(1), Reset(1), HalfClose(1)])
async def test_the_fault_proxy_reads_frames_within_tls(
    start_kafka: StartKafka, authority: Authority, options: dict[str, Any], fault: Fault
) -> None:
    certificate = authority.issue("broker")
    kafka = await start_kafka(1, {"orders": 1}, tls=certificate.server_context())
    trusting = ssl.create_default_context(cadata=authority.pem)
    script = FaultScript((Rule(fault, ApiKey.PRODUCE, Way.RESPONSE),))
    proxy = FaultProxy(
        kafka.servers[1].port, script, tls=certificate.server_context(), target_tls=trusting
    )
    async with asyncio.timeout(PATIENCE), proxy:
        kafka.advertised[1] = proxy.port
        async with Producer(bootstrap_servers=proxy.address, **options) as producer:
            await producer.send("orders", b"first")
        assert proxy.counts.total() == 1
    assert kafka.values("orders") == [b"first"]
    assert len({each.connection for each in kafka.requests(PRODUCE)}) == 2
