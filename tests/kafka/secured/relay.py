"""Two things between a producer and a server, which count who comes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.support.http_server import Request, answer, passed_on, serving

_HOST = "127.0.0.1"


class Relay:
    """A port before a broker's listener; an async context manager.

    A producer that knows this address alone comes through it until it is let in.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.news = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{_HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, _HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.news.set()
        to_broker = await asyncio.open_connection(*self._target)
        for source, sink in ((reader, to_broker[1]), (to_broker[0], writer)):
            task = asyncio.create_task(_pass_on(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
    finally:
        sink.close()


class Gate:
    """The way to a token endpoint: how often it was asked; shut, it answers 503."""

    def __init__(self, target: str) -> None:
        self.asked = 0
        self.shut = threading.Event()
        self.refused = threading.Event()
        self.url = ""
        self._target = target

    def __call__(self, request: Request, _: object) -> bytes:
        self.asked += 1
        if self.shut.is_set():
            self.refused.set()
            return answer(503, {})
        return passed_on(request, self._target)


@contextmanager
def gate_before(target: str, *, shut: bool = False) -> Iterator[Gate]:
    gate = Gate(target)
    if shut:
        gate.shut.set()
    with serving(gate) as server:
        gate.url = server.token_url
        yield gate
