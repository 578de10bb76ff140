"""Addresses of a broker, names that nobody knows, sockets, and what the kernel tells of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from aioproducer.auth.tls import TlsOptions
from aioproducer.engine.network import transport
from aioproducer.engine.network.timeouts import RoundTrip, round_trip, traffic
from aioproducer.engine.network.transport import (
    SocketSettings,
    canonical_names,
    interleaved,
    open_transport,
    resolve,
)
from aioproducer.errors import AuthenticationError, BrokerConnectionError
from aioproducer.foundation import tuning
from aioproducer.foundation.tuning import ROUND_TRIP_FRESH_FOR
from aioproducer.model import BootstrapId, BootstrapServer, Node
from tests.support.waiting import settle, until
from tests.unit.network.scripted_broker import LONG, SHORT, Owner, Peer, broker, resolves_to

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
    assert "10.0.0.1: no connection within 0" in reason
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


# --- several addresses ---------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address that answers nothing: its backlog is full, so the system drops what comes."""
    if sys.platform != "linux":
        pytest.skip("other systems have no 127.0.0.2, or answer for a full backlog")
    with socket.socket() as listener, ExitStack() as filling:
        listener.bind(("127.0.0.2", 0))
        listener.listen(0)
        address: tuple[str, int] = listener.getsockname()
        for _ in range(3):
            filler = filling.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield address


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "ADDRESS_HEAD_START", SHORT)


async def shake_hands(peer: Peer) -> None:
    await peer.handshake()


@pytest.mark.usefixtures("impatient")
async def test_a_silent_address_holds_up_no_other(silent: tuple[str, int]) -> None:
    async with broker(shake_hands) as node:
        owner = Owner(Node(1, "kafka", 9092), socket=resolves_to(silent, (node.host, node.port)))
        owner.connection._setup_timeout = 3600.0
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        running.cancel()


@pytest.mark.usefixtures("impatient")
async def test_the_address_that_was_reached_comes_first(
    silent: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    loop = asyncio.get_running_loop()
    create = loop.create_connection

    async def create_connection(make: Any, host: str, port: int, **options: Any) -> Any:
        tried.append(port)
        return await create(make, host, port, **options)

    monkeypatch.setattr(loop, "create_connection", create_connection)
    async with broker(shake_hands) as node:
        settings = resolves_to(silent, (node.host, node.port))._replace(reached={})
        for expected, head_start in (([silent[1], node.port], SHORT), ([node.port], LONG)):
            monkeypatch.setattr(tuning, "ADDRESS_HEAD_START", head_start)
            tried.clear()
            owner = Owner(Node(1, "kafka", 9092), socket=settings)
            owner.connection._setup_timeout = 3600.0
            running = owner.run()
            await asyncio.wait_for(owner.ready.wait(), LONG)
            running.cancel()
            assert tried == expected


class Handshakes:
    """A loop's ``create_connection`` in a network where TLS handshakes take what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.get_running_loop()
        self.outcomes: dict[str, asyncio.Future[BaseException | None]] = {}
        self.tried: list[str] = []
        self.transports: list[asyncio.Transport] = []
        self.peers: list[socket.socket] = []
        self.on_second: Callable[[], object] = lambda: None
        monkeypatch.setattr(self.loop, "create_connection", self._create)

    async def _create(
        self, make_protocol: Any, host: str, port: int, **options: Any
    ) -> tuple[Any, Any]:
        assert options["ssl"] is CONTEXT
        self.tried.append(host)
        error = await self.outcomes.setdefault(host, self.loop.create_future())
        if error is not None:
            raise error
        ours, theirs = socket.socketpair()
        self.peers.append(theirs)
        made, protocol = await self.loop._create_connection_transport(  # type: ignore[attr-defined]
            ours, make_protocol, None, None
        )
        self.transports.append(made)
        if len(self.transports) == 2:
            self.on_second()
        return made, protocol

    def open(self, *addresses: str) -> asyncio.Task[Any]:
        settings = resolves_to(*((address, 9093) for address in addresses))._replace(
            tls=cast("Any", SimpleNamespace(get=lambda: CONTEXT, options=TlsOptions()))
        )
        node = Node(1, "kafka", 9093)
        return asyncio.ensure_future(open_transport(node, settings, 3600.0, asyncio.Protocol))

    def end(self, host: str, error: BaseException | None = None) -> None:
        self.outcomes.setdefault(host, self.loop.create_future()).set_result(error)


CONTEXT = SimpleNamespace(check_hostname=True)


@pytest.fixture
async def handshakes(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Handshakes]:
    monkeypatch.setattr(transport, "_set_options", lambda *_: None)
    handshakes = Handshakes(monkeypatch)
    yield handshakes
    for made in handshakes.transports:
        made.abort()
    for peer in handshakes.peers:
        peer.close()


@pytest.mark.usefixtures("impatient")
async def test_a_handshake_that_stalls_holds_up_no_other(handshakes: Handshakes) -> None:
    handshakes.end("10.0.0.2")
    made, _ = await asyncio.wait_for(handshakes.open("10.0.0.1", "10.0.0.2"), LONG)
    assert handshakes.tried == ["10.0.0.1", "10.0.0.2"]
    assert handshakes.outcomes["10.0.0.1"].cancelled()
    assert handshakes.transports == [made]


async def test_a_refused_address_makes_room_for_the_next_at_once(
    handshakes: Handshakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "ADDRESS_HEAD_START", 3600.0)
    for number in (1, 2):
        handshakes.end(f"10.0.0.{number}", ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    handshakes.end("10.0.0.3")
    opening = handshakes.open(*(f"10.0.0.{number}" for number in range(1, 5)))
    await asyncio.wait_for(opening, LONG)
    assert handshakes.tried == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


@pytest.mark.usefixtures("impatient")
async def test_a_wrong_certificate_ends_all_attempts(handshakes: Handshakes) -> None:
    opening = handshakes.open("10.0.0.1", "10.0.0.2")
    await until(lambda: len(handshakes.tried) == 2)
    handshakes.end("10.0.0.2", ssl.SSLCertVerificationError(1, "certificate verify failed"))
    with pytest.raises(AuthenticationError):
        await asyncio.wait_for(opening, LONG)
    assert handshakes.outcomes["10.0.0.1"].cancelled()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_of_two_open_connections_one_is_left_at_most(
    handshakes: Handshakes, cancelled: bool
) -> None:
    opening = handshakes.open("10.0.0.1", "10.0.0.2")
    await until(lambda: len(handshakes.tried) == 2)
    if cancelled:
        handshakes.on_second = opening.cancel
    for host in handshakes.tried:
        handshakes.end(host)
    await asyncio.wait([opening])
    await settle()
    assert len(handshakes.transports) == 2
    kept = [made for made in handshakes.transports if not made.is_closing()]
    assert kept == ([] if opening.cancelled() else [opening.result()[0]])
    assert cancelled == opening.cancelled()


@pytest.mark.usefixtures("impatient")
async def test_a_cancelled_connection_leaves_no_socket_open(silent: tuple[str, int]) -> None:
    before = os.listdir("/proc/self/fd")
    owner = Owner(Node(1, "kafka", 9092), socket=resolves_to(silent, silent, silent))
    owner.connection._setup_timeout = 3600.0
    running = owner.run()
    await until(lambda: len(os.listdir("/proc/self/fd")) >= len(before) + 3)
    running.cancel()
    await asyncio.wait([running])
    await settle()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_families_take_turns() -> None:
    sixes = [(f"::{number}", 1) for number in range(1, 4)]
    fours = [(f"10.0.0.{number}", 1) for number in range(1, 3)]
    assert interleaved(sixes + fours) == [sixes[0], fours[0], sixes[1], fours[1], sixes[2]]
    assert interleaved(fours + sixes) == [fours[0], sixes[0], fours[1], sixes[1], sixes[2]]
    assert interleaved(fours) == fours
    assert interleaved([]) == []


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A name service: addresses by name; the canonical name of ``a.b`` is ``host-a.b``."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: bytes, port: int, **options: Any) -> list[Any]:
        name = host.decode()
        if name not in known or options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (each, port, 0, 0))
            if ":" in each
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in known[name]
        ]

    def getnameinfo(address: Any, flags: int) -> tuple[str, str]:
        return f"host-{address[0]}", str(address[1])

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    return known


async def test_every_address_once_in_the_resolvers_order(names: dict[str, list[str]]) -> None:
    names["kafka"] = ["10.0.0.2", "::1", "10.0.0.1", "10.0.0.2", "fe80::1%eth0"]
    assert await resolve("kafka", 9092) == [
        ("10.0.0.2", 9092),
        ("::1", 9092),
        ("10.0.0.1", 9092),
        ("fe80::1%eth0", 9092),
    ]


async def test_no_address_of_a_name_that_nobody_knows(names: dict[str, list[str]]) -> None:
    with pytest.raises(BrokerConnectionError, match="'nobody' can't be resolved") as caught:
        await resolve("nobody", 9092)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "a\0b", "\ud800", ""])
async def test_no_address_of_a_name_that_is_none(host: str) -> None:
    """A broker may advertise anything; it must not be what breaks the producer."""
    with pytest.raises(BrokerConnectionError, match="can't be resolved"):
        await resolve(host, 9092)


@pytest.mark.parametrize("port", [70_000, -1, 2**31 - 1])
async def test_no_address_with_a_port_that_is_none(port: int) -> None:
    with pytest.raises(BrokerConnectionError, match=str(port)):
        await resolve("127.0.0.1", port)


async def test_canonical_names_of_every_address(names: dict[str, list[str]]) -> None:
    names["alias"] = ["10.0.0.1", "10.0.0.2"]
    names["other"] = ["10.0.0.2", "::1"]
    assert await canonical_names([("alias", 9092), ("other", 9093), ("alias", 9092)]) == [
        ("host-10.0.0.1", 9092),
        ("host-10.0.0.2", 9092),
        ("host-10.0.0.2", 9093),
        ("host-::1", 9093),
    ]


async def test_a_bootstrap_server_that_cannot_be_resolved_does_not_hide_the_others(
    names: dict[str, list[str]],
) -> None:
    """Kafka's ClientUtils warns and goes on while at least one is left."""
    names["alias"] = ["10.0.0.1"]
    assert await canonical_names([("gone", 9092), ("alias", 9092)]) == [("host-10.0.0.1", 9092)]


async def test_no_bootstrap_server_can_be_resolved(names: dict[str, list[str]]) -> None:
    with pytest.raises(BrokerConnectionError, match=r"'gone'.*'lost'"):
        await canonical_names([("gone", 9092), ("lost", 9092)])


@contextmanager
def connected_sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as accepted,
    ):
        yield client, accepted


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_a_connection_of_this_machine_has_a_short_one() -> None:
    with connected_sockets() as (client, accepted):
        client.sendall(b"x")
        assert accepted.recv(1) == b"x"
        found = round_trip(client)
        assert found is not None
        assert 0 < found < 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_bytes_that_pass_are_those_the_other_side_has_taken() -> None:
    with connected_sockets() as (client, accepted):
        before = traffic(client)
        assert before is not None
        assert not before.is_sending
        client.sendall(bytes(1_000))
        assert accepted.recv(1_000, socket.MSG_WAITALL) == bytes(1_000)
        accepted.sendall(bytes(500))
        assert client.recv(500, socket.MSG_WAITALL) == bytes(500)
        found = traffic(client)
        assert found is not None
        assert (found.passed - before.passed, found.is_sending) == (1_500, False)
        assert found.silence < 5
        client.setblocking(False)
        with suppress(BlockingIOError):
            while client.send(bytes(65_536)):  # nobody reads
                pass
        stuck = traffic(client)
        assert stuck is not None
        assert stuck.is_sending


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_closed_connection_has_none(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def after_the_end() -> float | None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.getsockname())
            ours = writer.get_extra_info("socket")
            writer.close()
            await writer.wait_closed()
            return round_trip(ours)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(after_the_end()) is None


def test_no_socket_or_one_of_another_kind_has_none() -> None:
    for none in (None, object()):
        assert (round_trip(none), traffic(none)) == (None, None)
    with socket.socket(socket.AF_UNIX) as other:
        assert (round_trip(other), traffic(other)) == (None, None)


class CountingSocket:
    """Its round-trip time is the number of questions, in seconds."""

    def __init__(self) -> None:
        self.asked = 0

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        self.asked += 1
        return bytes(68) + (self.asked * 1_000_000).to_bytes(4, sys.byteorder) + bytes(size - 72)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_system_is_not_asked_for_each_response() -> None:
    connected = CountingSocket()
    round_trips = RoundTrip(connected)
    for tenth in range(16):
        now = 100 + tenth * ROUND_TRIP_FRESH_FOR / 10
        if now >= round_trips.stale_at:
            round_trips.ask(now)
        assert round_trips.seconds == (1.0 if tenth < 10 else 2.0)
    assert connected.asked == 2
