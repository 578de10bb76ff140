"""An HTTP server on loopback that answers as it is told, byte by byte, in the test's event loop."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Reply", "Request", "ScriptedRegistry", "reply", "scripted_registry"]


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply: TypeAlias = bytes | Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
"""All bytes of an answer, or what writes them."""


def reply(status: int, body: object = b"", **headers: str) -> bytes:
    """An answer with ``body``, as JSON unless it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(content))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content


@dataclass
class ScriptedRegistry:
    """Gives the replies of its script in their order, and the last one again and again."""

    script: list[Reply]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def authorizations(self) -> list[str | None]:
        return [each.headers.get("authorization") for each in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            try:
                while await self._answer(await _read(reader), writer):
                    await writer.drain()
            finally:
                writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """True if the connection stays open."""
        self.requests.append(request)
        self.asked.set()
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, bytes):
            writer.write(answer)
            return b"Content-Length" in answer.partition(b"\r\n\r\n")[0]
        await answer(request, writer)
        return False


@asynccontextmanager
async def scripted_registry(
    *script: Reply, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedRegistry]:
    """A running server; its end cuts the connections that are open."""
    registry = ScriptedRegistry(list(script))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(registry.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield registry
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)
