"""The proxies of the tests, judged by curl: they are no mirror of our own reading of the RFCs."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from tests.support.proxies import LoopbackProxy
from tests.support.tcp_server import TcpServer

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

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
