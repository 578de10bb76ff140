"""Loopback proxies for tests: SOCKS5 and CONNECT of HTTP, with and without a login.

They take a client's bytes by fixed layouts, so a test of a client needs no other reading of the
RFCs than that of curl, which `tests/unit/network/test_tunnels.py` tries them with.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeAlias

from tests.support.tcp_server import TcpServer

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


@dataclass
class Asked:
    """A connection that a client has asked for."""

    host: str
    port: int
    by_name: bool


@dataclass
class LoopbackProxy:
    """A proxy on 127.0.0.1, as an async context manager."""

    scheme: str
    login: tuple[str, str] | None = None
    names: dict[str, str] = field(default_factory=dict)
    """Addresses that this proxy alone knows by these names."""
    refusal: int | str | None = None
    """A SOCKS5 reply, or a status line of HTTP, for every request."""
    byte_by_byte: bool = False
    """Each byte of the answers is a segment of its own."""
    greeting: bytes = b""
    """Bytes of the far end that come with the last answer, in one segment."""
    asked: list[Asked] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = TcpServer(self._serve)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self._server.close()
        assert self._server.failures == []

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def accepted(self) -> int:
        """The number of connections so far."""
        return self._server.accepted

    def url(self, scheme: str | None = None, login: str = "") -> str:
        """The URL for ``proxy_url``; ``login``: as it stands there, with its @."""
        return f"{scheme or self.scheme}://{login}127.0.0.1:{self.port}"

    async def cut(self) -> None:
        """End all connections."""
        await self._server.cut()

    async def _serve(self, reader: Reader, writer: Writer) -> None:
        target = await (self._http if self.scheme == "http" else self._socks5)(reader, writer)
        if target is not None:
            await self._pass_on(target, reader, writer)

    async def _answer(self, writer: Writer, data: bytes, *, last: bool = False) -> None:
        if last:
            data += self.greeting
        for each in [bytes((byte,)) for byte in data] if self.byte_by_byte else [data]:
            writer.write(each)
            await writer.drain()
            if self.byte_by_byte:
                await asyncio.sleep(0.001)

    def _connect_to(self, host: str, port: int, *, by_name: bool) -> socket.socket | None:
        self.asked.append(Asked(host, port, by_name))
        try:
            connected = socket.create_connection((self.names.get(host, host), port))
        except OSError:
            return None
        connected.setblocking(False)
        return connected

    async def _socks5(self, reader: Reader, writer: Writer) -> socket.socket | None:
        version, count = await reader.readexactly(2)
        assert version == 5
        methods = await reader.readexactly(count)
        wanted = 0 if self.login is None else 2
        await self._answer(writer, bytes((5, wanted if wanted in methods else 0xFF)))
        if wanted not in methods:
            return None
        if self.login is not None:
            assert await reader.readexactly(1) == b"\1"
            user, password = [
                (await reader.readexactly((await reader.readexactly(1))[0])).decode() for _ in "12"
            ]
            self.logins.append((user, password))
            right = (user, password) == self.login
            await self._answer(writer, b"\1\0" if right else b"\1\1")
            if not right:
                return None
        version, command, reserved, kind = await reader.readexactly(4)
        assert (version, command, reserved) == (5, 1, 0)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
        else:
            size, family = {1: (4, socket.AF_INET), 4: (16, socket.AF_INET6)}[kind]
            host = socket.inet_ntop(family, await reader.readexactly(size))
        port = int.from_bytes(await reader.readexactly(2), "big")
        target = None
        if self.refusal is None:
            target = self._connect_to(host, port, by_name=kind == 3)
        code = self.refusal if isinstance(self.refusal, int) else 0 if target else 5
        await self._answer(
            writer, bytes((5, code, 0, 1, 127, 0, 0, 1, 4, 56)), last=target is not None
        )
        return target

    async def _http(self, reader: Reader, writer: Writer) -> socket.socket | None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        assert (method, version) == ("CONNECT", "HTTP/1.1")
        fields = dict(
            each.lower().split(": ", 1)[:1] + each.split(": ", 1)[1:] for each in lines if each
        )
        assert fields["host"] == target
        if self.login is not None:
            kind, _, told = fields.get("proxy-authorization", "").partition(" ")
            user, _, password = base64.b64decode(told).decode().partition(":")
            if told:
                self.logins.append((user, password))
            if kind != "Basic" or (user, password) != self.login:
                await self._status(
                    writer,
                    "407 Proxy Authentication Required",
                    'Proxy-Authenticate: Basic realm="x"',
                )
                return None
        if self.refusal is not None:
            await self._status(writer, str(self.refusal))
            return None
        host, _, port = target.rpartition(":")
        bare = host.strip("[]")
        by_name = not bare.replace(".", "").isdigit() and ":" not in bare
        connected = self._connect_to(bare, int(port), by_name=by_name)
        if connected is None:
            await self._status(writer, "502 Bad Gateway")
        else:
            await self._answer(
                writer, b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n", last=True
            )
        return connected

    async def _status(self, writer: Writer, status: str, *fields: str) -> None:
        lines = (f"HTTP/1.1 {status}", *fields, "Content-Length: 6", "", "Sorry\n")
        await self._answer(writer, "\r\n".join(lines).encode())

    async def _pass_on(self, target: socket.socket, reader: Reader, writer: Writer) -> None:
        far_reader, far_writer = await asyncio.open_connection(sock=target)

        async def pump(source: Reader, sink: Writer) -> None:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            sink.write_eof()

        pumps = [
            asyncio.ensure_future(pump(reader, far_writer)),
            asyncio.ensure_future(pump(far_reader, writer)),
        ]
        try:
            await asyncio.gather(*pumps)
        finally:
            for each in pumps:
                each.cancel()
            far_writer.transport.abort()
