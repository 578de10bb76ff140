"""A client of a web application that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx
from aiohttp import web
from aiohttp.test_utils import TestServer

Message: TypeAlias = MutableMapping[str, Any]
Asgi: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@asynccontextmanager
async def client_of(app: Asgi | web.Application) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an ASGI or aiohttp application, within the application's lifespan."""
    if isinstance(app, web.Application):
        async with TestServer(app) as server, _client(str(server.make_url("")), None) as client:
            yield client
        return
    async with _lifespan(app) as state:

        async def with_state(scope: Message, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        async with _client("http://app", httpx.ASGITransport(with_state)) as client:
            yield client


def _client(url: str, transport: httpx.ASGITransport | None) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, transport=transport, trust_env=False)


@asynccontextmanager
async def _lifespan(app: Asgi) -> AsyncIterator[dict[str, Any]]:
    """The state that the application sets as it starts. The server's side of the protocol."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    state: dict[str, Any] = {}

    async def pass_on(event: str) -> None:
        await to_app.put({"type": f"lifespan.{event}"})
        answer = asyncio.create_task(from_app.get())
        await asyncio.wait([answer, running], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            await running  # raises the application's error
        assert answer.result() == {"type": f"lifespan.{event}.complete"}

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}

    async def run() -> None:
        await app(scope, to_app.get, from_app.put)

    running = asyncio.create_task(run())
    try:
        await pass_on("startup")
        yield state
        await pass_on("shutdown")
        await running
    finally:
        running.cancel()
