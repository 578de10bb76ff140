"""The model of Kafka on sockets, for clients in other processes.

A client's process orders what shall happen by lines on its standard output (:func:`serve`), and
waits for a line of its standard input. Everything else that it says is kept.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from aioproducer.testing.ports import free_ports
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel
from aioproducer.testing.simulation.kafka.model import ModelConnection

HOST: Final = "localhost"
_AGAIN: Final = 0.02
"""Seconds after which the model looks what is due, at the latest."""


class _End(asyncio.Protocol):
    """A broker's end of a connection."""

    def __init__(self, served: ServedKafka, broker: int) -> None:
        self._served = served
        self._broker = broker
        self.transport: asyncio.Transport
        self._model: ModelConnection

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._served.ends.add(self)
        self._model = self._served.model.connect(
            self._broker, transport.write, transport.close, time.time()
        )

    def data_received(self, data: bytes) -> None:
        self._model.receive(data, time.time())
        self._served.moved_on()

    def connection_lost(self, _: Exception | None) -> None:
        self._served.ends.discard(self)
        self._model.lost(time.time())
        self._served.moved_on()


class ServedKafka:
    """One broker of the model; ``tls``: the context of the server."""

    def __init__(
        self, options: ClusterOptions | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.model = KafkaModel(1, random=Random(7), options=options)
        self.ends: set[_End] = set()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        [self.port] = free_ports(1)

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    async def __aenter__(self) -> ServedKafka:
        self.model.host = lambda _: (HOST, self.port)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _End(self, 1), "127.0.0.1", self.port, ssl=self._tls
        )
        self.moved_on()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        self.cut()

    def cut(self) -> None:
        """End every connection."""
        for end in list(self.ends):
            end.transport.abort()

    @property
    def orders(self) -> dict[str, Callable[..., Awaitable[None]]]:
        """For :func:`serve`: ``cut``, and ``fail API CODE`` for the next request of an API."""

        async def cut() -> None:
            self.cut()

        async def fail(api: str, code: str) -> None:
            self.model.fail_next(int(api), int(code))

        return {"cut": cut, "fail": fail}

    def moved_on(self) -> None:
        """Let the model do what is due, and wake it when there is more to do."""
        if self._timer is not None:
            self._timer.cancel()
        now = time.time()
        moment = self.model.tick(now)
        pause = _AGAIN if moment is None else min(max(moment - now, 0.0), _AGAIN)
        self._timer = asyncio.get_running_loop().call_later(pause, self.moved_on)


async def serve(
    program: Sequence[str],
    *,
    orders: Mapping[str, Callable[..., Awaitable[None]]],
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,
) -> tuple[list[str], str]:
    """Run a program: the lines that it said, and its standard error.

    A line that begins with one of ``orders`` calls it with the words after it, and the program gets
    a line when that is done. Raises AssertionError if the program fails.
    """
    process = await asyncio.create_subprocess_exec(
        *program, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    said = []
    try:
        async with asyncio.timeout(timeout):
            while line := (await process.stdout.readline()).decode().rstrip("\n"):
                order, *words = line.split()
                if order not in orders:
                    said.append(line)
                    continue
                await orders[order](*words)
                process.stdin.write(b"done\n")
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        text = (await errors).decode()
        print(text[-8000:], file=sys.stderr)
    assert process.returncode == 0, f"exit code {process.returncode}: {text[-3000:]}"
    return said, text
