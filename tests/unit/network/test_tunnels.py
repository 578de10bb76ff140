"""Connections through proxies on loopback: whole ones, misbehaving proxies, cancellation, TLS."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.config import Secret
from aioproducer.config.proxy_url import parse_proxy_url
from aioproducer.engine.network.transport import SocketSettings, open_transport
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    SslAuthenticationError,
)
from aioproducer.model import Node
from aioproducer.testing.certificates import Authority
from tests.support.inside import all_tasks
from tests.support.proxies import LoopbackProxy
from tests.support.tcp_server import Handler, TcpServer
from tests.support.waiting import until

LONG, SHORT = 60.0, 0.5
NAME = "kafka.test"
"""A name that only the proxy knows."""

Main = Callable[[], Awaitable[None]]
schemes = pytest.mark.parametrize("scheme", ["socks5h", "http"])


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Runs a coroutine function on a loop, and sees to it that no descriptor is left open."""

    def run(main: Main) -> None:
        async def whole() -> None:
            async with asyncio.timeout(LONG):
                await main()
            await until(lambda: len(all_tasks()) == 1, "no task is left")

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.sleep(0))  # the first loop of a kind opens descriptors for good
        before = len(os.listdir("/proc/self/fd"))
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(whole())
        assert len(os.listdir("/proc/self/fd")) == before

    return run


class Received(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: BaseException | None) -> None:
        self.ended.set()


def settings(url: str, **changes: Any) -> SocketSettings:
    return SocketSettings(-1, -1, proxy=parse_proxy_url(Secret(url)), reached={})._replace(
        **changes
    )


def node(port: int, host: str = NAME) -> Node:
    return Node(7, host, port)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)


class Served:
    """A :class:`TcpServer` as an async context manager."""

    def __init__(self, handler: Handler, tls: Any = None) -> None:
        self.server = TcpServer(handler, tls)

    async def __aenter__(self) -> TcpServer:
        await self.server.start()
        return self.server

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()
        assert self.server.failures == []


async def exchange(peer: Node, socket_settings: SocketSettings, expected: bytes) -> None:
    transport, protocol = await open_transport(peer, socket_settings, LONG, Received)
    transport.write(b"ping")
    await until(lambda: len(protocol.data) >= len(expected))
    assert protocol.data == expected
    transport.abort()
    await protocol.ended.wait()


@schemes
@pytest.mark.parametrize("byte_by_byte", [False, True])
def test_bytes_that_come_with_the_proxy_s_answer_reach_the_protocol(
    run: Callable[[Main], None], scheme: str, byte_by_byte: bool
) -> None:
    async def main() -> None:
        kind = "http" if scheme == "http" else "socks5"
        async with (
            Served(echo) as server,
            LoopbackProxy(kind, names={NAME: "127.0.0.1"}, greeting=b"\n\r\nfirst ") as proxy,
        ):
            proxy.byte_by_byte = byte_by_byte
            with_proxy = settings(proxy.url(scheme))
            await exchange(node(server.port), with_proxy, b"\n\r\nfirst ping")
            assert [(each.host, each.by_name) for each in proxy.asked] == [(NAME, True)]
            assert with_proxy.reached == {
                ("127.0.0.1", proxy.port): ("127.0.0.1", proxy.port),
                (NAME, server.port): (NAME, server.port),
            }

    run(main)


def test_socks5_resolves_names_here_and_tries_each_address(run: Callable[[Main], None]) -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        if host == "gate":
            return [("127.0.0.1", 1), ("127.0.0.1", port)]
        return [("127.0.0.1", 2), ("127.0.0.1", port)]

    async def main() -> None:
        async with Served(echo) as server, LoopbackProxy("socks5") as proxy:
            with_proxy = settings(f"socks5://gate:{proxy.port}", resolve=resolve)
            for tries in (2, 1):
                proxy.asked.clear()
                await exchange(node(server.port), with_proxy, b"ping")
                assert len(proxy.asked) == tries
                assert not any(each.by_name for each in proxy.asked)
            assert with_proxy.reached is not None
            assert set(with_proxy.reached.values()) == {
                ("127.0.0.1", proxy.port),
                ("127.0.0.1", server.port),
            }

    run(main)


# --- proxies that refuse or misbehave ------------------------------------------------------------


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def closing_in_between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"HTTP/1.1 2")
    await writer.drain()
    await asyncio.sleep(0.05)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"x" * 1000)
        await writer.drain()


def refusal(
    run: Callable[[Main], None],
    handler: Handler,
    scheme: str,
    timeout: float = LONG,
    kind: type[Exception] = BrokerConnectionError,
) -> str:
    said = ""

    async def main() -> None:
        nonlocal said
        async with Served(handler) as proxy:
            url = f"{scheme}://alice:hunter2@{proxy.address}"
            with pytest.raises(kind) as raised:
                await open_transport(node(9092), settings(url), timeout, Received)
            said = str(raised.value).replace(proxy.address, "gate")

    run(main)
    assert "hunter2" not in said
    return said


def test_a_silent_proxy_ends_after_the_timeout(run: Callable[[Main], None]) -> None:
    said = refusal(run, silent, "socks5h", SHORT)
    assert said.startswith("proxy gate: no answer to the greeting of SOCKS5 within 0")
    said = refusal(run, silent, "http", SHORT)
    assert said.startswith("proxy gate: no answer to CONNECT kafka.test:9092 within 0")


def closing_after(*answers: bytes) -> Handler:
    """A SOCKS5 proxy that answers some messages, and closes the connection at the next one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(1000)
            writer.write(answer)
            await writer.drain()
        await reader.read(1000)

    return serve


def test_a_proxy_that_closes(run: Callable[[Main], None]) -> None:
    for scheme in ("socks5h", "http"):
        said = refusal(run, closing, scheme)
        assert said.startswith("proxy gate")
        assert "no answer to" in said
    said = refusal(run, closing_in_between, "http")
    assert "closed the connection: no answer to CONNECT kafka.test:9092. The proxy may" in said


@pytest.mark.parametrize(
    ("scheme", "answers", "ending"),
    [
        ("http", (), "no answer to CONNECT kafka.test:9092. Is it an HTTP proxy?"),
        ("socks5h", (), "no answer to the greeting of SOCKS5. Is it a SOCKS5 proxy?"),
        (
            "socks5h",
            (b"\5\2",),
            "no answer to the login. It may refuse the login: check the user name and password in "
            "proxy_url",
        ),
        (
            "socks5h",
            (b"\5\0",),
            "no answer to the request for kafka.test:9092. The proxy may be unable to reach the "
            "broker, or to resolve its name",
        ),
    ],
)
def test_a_proxy_that_closes_instead_of_answering(
    run: Callable[[Main], None], scheme: str, answers: tuple[bytes, ...], ending: str
) -> None:
    said = refusal(run, closing_after(*answers), scheme)
    assert said == f"proxy gate closed the connection: {ending}"


def test_an_endless_answer_has_a_bound(run: Callable[[Main], None]) -> None:
    assert "16384 bytes without ending" in refusal(run, endless, "http")


def test_a_refused_login_is_final(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        for scheme, kind in (("socks5h", "socks5"), ("http", "http")):
            async with LoopbackProxy(kind, login=("alice", "hunter2")) as proxy:
                for login, said in (("", "asks for a login"), ("alice:x@", "refused the login")):
                    with pytest.raises(AuthenticationError, match=said):
                        await open_transport(
                            node(9092), settings(proxy.url(scheme, login)), LONG, Received
                        )

    run(main)


def test_an_unreachable_proxy_is_named(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        with pytest.raises(BrokerConnectionError, match=r"^proxy 127.0.0.1:1: .*refused$"):
            await open_transport(node(9092), settings("socks5h://127.0.0.1:1"), LONG, Received)

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            raise BrokerConnectionError(f"the name {host!r} can't be resolved")

        unknown = settings("socks5://127.0.0.1:1")
        with pytest.raises(BrokerConnectionError, match=r"'a\.\.b' can't be .*\. With socks5h://"):
            await open_transport(node(9092, "a..b"), unknown, LONG, Received)
        unknown = settings("socks5h://gate:1", resolve=resolve)
        with pytest.raises(BrokerConnectionError, match=r"^proxy gate:1: the name 'gate' can't"):
            await open_transport(node(9092), unknown, LONG, Received)

    run(main)


# --- cancellation --------------------------------------------------------------------------------

ANSWERS = {
    "socks5h": b"\5\2\1\0\5\0\0\3\3abc\0\1",
    "http": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nVia: x\r\n\r\n",
}
PLACES = [
    *(("socks5h", count) for count in range(len(ANSWERS["socks5h"]))),
    *(("http", count) for count in (0, 1, 9, 24, 25, 30, 50, 51)),
]


@pytest.mark.parametrize(("scheme", "count"), PLACES)
def test_cancelled_anywhere_it_leaves_nothing(
    run: Callable[[Main], None], scheme: str, count: int
) -> None:
    """The answers stop after some bytes; then the connection is cancelled."""
    stopped, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(ANSWERS[scheme][:count])
        await writer.drain()
        stopped.set()
        while await reader.read(1000):
            pass
        ended.set()

    async def main() -> None:
        async with Served(serve) as proxy:
            url = f"{scheme}://alice:x@{proxy.address}"
            opening = asyncio.ensure_future(
                open_transport(node(9092), settings(url), LONG, Received)
            )
            await stopped.wait()
            await asyncio.sleep(0.01)
            assert not opening.done()
            opening.cancel()
            await asyncio.wait([opening])
            assert opening.cancelled()
            await ended.wait()

    run(main)


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@schemes
def test_tls_verifies_the_broker_through_the_proxy(
    run: Callable[[Main], None], scheme: str, authority: Authority
) -> None:
    names: list[object] = []
    context = authority.issue("broker", hosts=(NAME,)).server_context()
    context.sni_callback = lambda _, name, __: names.append(name)
    tls = TlsContexts(TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem))
    known = {NAME: "127.0.0.1", "other.test": "127.0.0.1"}

    async def main() -> None:
        async with (
            Served(echo, context) as server,
            LoopbackProxy("http" if scheme == "http" else "socks5", names=known) as proxy,
        ):
            with_tls = settings(proxy.url(scheme), tls=tls)
            await exchange(node(server.port), with_tls, b"ping")
            with pytest.raises(SslAuthenticationError) as raised:
                await open_transport(node(server.port, "other.test"), with_tls, LONG, Received)
            through = f"other.test:{server.port} through proxy 127.0.0.1:{proxy.port}: "
            assert str(raised.value).startswith(through)
            assert names == [NAME, "other.test"]

    run(main)


@schemes
def test_a_tls_handshake_through_a_proxy_is_bounded_and_can_be_cancelled(
    run: Callable[[Main], None], scheme: str, authority: Authority
) -> None:
    tls = TlsContexts(TlsOptions(truststore_type="PEM", truststore_certificates=authority.pem))
    kind = "http" if scheme == "http" else "socks5"

    async def main() -> None:
        async with Served(silent) as server, LoopbackProxy(kind) as proxy:
            with_tls = settings(proxy.url(scheme), tls=tls)
            peer = node(server.port, "127.0.0.1")
            with pytest.raises(BrokerConnectionError) as raised:
                await open_transport(peer, with_tls, SHORT, Received)
            assert "through proxy 127.0.0.1" in str(raised.value)
            assert "no connection with TLS within" in str(raised.value)
            opening = asyncio.ensure_future(open_transport(peer, with_tls, LONG, Received))
            await until(lambda: server.accepted == 2)
            await asyncio.sleep(0.02)
            opening.cancel()
            await asyncio.wait([opening])
            assert opening.cancelled()

    run(main)


# --- forked processes ----------------------------------------------------------------------------

FORKING = """
    import asyncio, os, sys, time, warnings

    from aioproducer.config import Secret
    from aioproducer.config.proxy_url import parse_proxy_url
    from aioproducer.engine.network.transport import SocketSettings, open_transport
    from aioproducer.model import Node

    warnings.simplefilter("ignore", DeprecationWarning)
    proxy = parse_proxy_url(Secret(f"socks5h://127.0.0.1:{sys.argv[1]}"))

    async def main():
        opening = asyncio.ensure_future(open_transport(
            Node(1, "kafka", 9092), SocketSettings(-1, -1, proxy=proxy), 60.0, asyncio.Protocol
        ))
        await asyncio.sleep(0.3)
        assert not opening.done()
        child = os.fork()
        if child == 0:
            time.sleep(3600)
        opening.cancel()
        await asyncio.wait([opening])
        print(child, flush=True)

    asyncio.run(main())
"""


def test_a_child_that_is_forked_during_a_handshake_keeps_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LONG)
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-c", textwrap.dedent(FORKING), port]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            accepted, _ = listener.accept()
            assert process.stdout is not None
            child = int(process.stdout.readline() or b"0")
            try:
                with accepted:
                    accepted.settimeout(15)
                    received = b""
                    while data := accepted.recv(100):
                        received += data
                    assert received == b"\5\1\0"
            finally:
                if child:
                    os.kill(child, signal.SIGKILL)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


async def curl(proxy: LoopbackProxy, scheme: str, login: str, target: str) -> tuple[int, str]:
    """The return code and the output of a request through ``proxy``."""
    process = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--show-error", "--max-time", "20", "--proxytunnel"),
        *("--noproxy", "", "--proxy", proxy.url(scheme, login), f"http://{target}/"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)
    await writer.drain()
    writer.write_eof()
    await reader.read(1)


@pytest.fixture
async def port() -> Any:
    server = TcpServer(serve)
    await server.start()
    yield server.port
    await server.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
@pytest.mark.parametrize("login", [None, ("alice", "p@ss")])
@pytest.mark.parametrize("byte_by_byte", [False, True])
async def test_curl_gets_through(
    scheme: str, login: tuple[str, str] | None, byte_by_byte: bool, port: int
) -> None:
    kind = "http" if scheme == "http" else "socks5"
    names = {"only.the.proxy": "127.0.0.1"}
    async with LoopbackProxy(kind, login, names, byte_by_byte=byte_by_byte) as proxy:
        host = "127.0.0.1" if scheme == "socks5" else "only.the.proxy"
        written = "" if login is None else "alice:p%40ss@"
        assert await curl(proxy, scheme, written, f"{host}:{port}") == (0, "hello")
        assert [(each.host, each.by_name) for each in proxy.asked] == [(host, scheme != "socks5")]
        assert proxy.logins == ([] if login is None else [login])


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("scheme", ["socks5h", "http"])
async def test_curl_is_refused(scheme: str, port: int) -> None:
    kind = "http" if scheme == "http" else "socks5"
    async with LoopbackProxy(kind, ("alice", "right")) as proxy:
        for login in ("", "alice:wrong@"):
            code, output = await curl(proxy, scheme, login, f"127.0.0.1:{port}")
            assert code == (97 if kind == "socks5" else 56), output
        assert proxy.asked == []
    async with LoopbackProxy(kind, refusal=2 if kind == "socks5" else "403 Forbidden") as proxy:
        code, output = await curl(proxy, scheme, "", f"127.0.0.1:{port}")
        assert code == (97 if kind == "socks5" else 56), output
