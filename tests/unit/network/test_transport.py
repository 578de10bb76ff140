"""Addresses of a broker, sockets, and names that nobody knows."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aioproducer.auth.tls import TlsOptions
from aioproducer.engine.network import transport
from aioproducer.engine.network.transport import SocketSettings, interleaved, open_transport
from aioproducer.errors import AuthenticationError, BrokerConnectionError
from aioproducer.foundation import tuning
from aioproducer.model import BootstrapId, BootstrapServer, Node
from tests.support.settling import settle
from tests.support.waiting import until
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
        for expected in ([silent[1], node.port], [node.port]):
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
