"""One connection through the proxy, which reads whole frames and carries out the script's steps."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, assert_never

from aioproducer.testing.fault_proxy.faults import Fault, Way
from aioproducer.testing.fault_proxy.frames import (
    LENGTH_BYTES,
    Correlations,
    NotKafkaError,
    frame_length,
)
from aioproducer.testing.fault_proxy.script import ScriptRun
from aioproducer.testing.fault_proxy.steps import (
    End,
    GoDark,
    Pace,
    Pass,
    ShutDown,
    Step,
    Wait,
    steps,
)

__all__ = ["ProxiedConnection", "abort"]

_HOST: Final = "127.0.0.1"
_CHUNKS_PER_SECOND: Final = 50
_READ_BYTES: Final = 65536
# On, for 0 seconds: close() drops what was not sent and resets the connection.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

Script = Callable[[], ScriptRun]
Happened = Callable[[Fault], None]


def abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, with all unsent bytes; nothing if its socket is closed.

    asyncio's transports raise AttributeError then: one if bytes waited when it was told to close,
    and that of TLS, in Python 3.11, for every question.
    """
    with suppress(AttributeError):
        connected = writer.get_extra_info("socket")
        if connected is None or connected.fileno() >= 0:
            writer.transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection at once, so that the other side gets a reset."""
    with suppress(AttributeError):
        connected = writer.get_extra_info("socket")
        if connected is not None and connected.fileno() >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


class _OverError(Exception):
    """One direction of the connection has ended."""


class _OneWay:
    """The bytes to one side, and the pace at which they are written."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.bytes_per_second: int | None = None
        self.shut = False

    async def write(self, data: bytes) -> None:
        if self.bytes_per_second is None:
            self.writer.write(data)
            await self.writer.drain()
            return
        size = max(1, self.bytes_per_second // _CHUNKS_PER_SECOND)
        for start in range(0, len(data), size):
            chunk = data[start : start + size]
            self.writer.write(chunk)
            await self.writer.drain()
            await asyncio.sleep(len(chunk) / self.bytes_per_second)

    def shut_down(self) -> None:
        self.shut = True
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:  # TLS ends without close_notify
            self.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool) -> None:
        if reset:
            _reset(self.writer)
        if not self.writer.is_closing():
            self.writer.close()


class ProxiedConnection:
    """A client, the broker behind it, and the script between them.

    `script` is called for each frame, so a new script meets the present connections.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        script: Script,
        happened: Happened,
    ) -> None:
        self._client = reader
        self._to_client = _OneWay(writer)
        self._to_broker: _OneWay | None = None
        self._script = script
        self._happened = happened
        self._correlations = Correlations()
        self._dark = False
        self._ended = False

    async def run(self, port: int | None, tls: ssl.SSLContext | None = None) -> None:
        """Run until both sides are closed. Raises NotKafkaError; `port` None: no broker.

        `tls`: the broker speaks TLS.
        """
        try:
            if (fault := self._script().decide(Way.CONNECTION)) is not None:
                await self._carry_out(fault, b"", self._to_client)
            if self._dark or self._to_client.shut or self._ended:
                await self._swallow(self._client)
            else:
                await self._connect(port, tls)
        except (OSError, EOFError):
            self.end(reset=True)
        finally:
            self._ended = True
            for side in self._sides():
                if not side.writer.is_closing():  # asyncio's TLS can't be aborted after two calls
                    side.writer.close()
                with suppress(OSError):
                    await side.writer.wait_closed()

    def end(self, *, reset: bool) -> None:
        """Close both sides, once: after the written bytes or, with `reset`, without them."""
        if not self._ended:
            self._ended = True
            for side in self._sides():
                side.close(reset=reset)

    def abort(self) -> None:
        """Drop both sides, with all unsent bytes; :meth:`run` ends soon after."""
        self._ended = True
        for side in self._sides():
            abort(side.writer)

    def _sides(self) -> list[_OneWay]:
        return [self._to_client] + ([self._to_broker] if self._to_broker else [])

    async def _connect(self, port: int | None, tls: ssl.SSLContext | None) -> None:
        if port is None:
            raise ConnectionRefusedError
        name = "localhost" if tls else None
        broker, writer = await asyncio.open_connection(_HOST, port, ssl=tls, server_hostname=name)
        to_broker = self._to_broker = _OneWay(writer)
        to_broker.bytes_per_second = self._to_client.bytes_per_second
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._until_over(self._requests(self._client, to_broker)))
                ways.create_task(self._until_over(self._responses(broker)))
        except* _OverError:
            pass
        except* NotKafkaError as errors:
            raise errors.exceptions[0] from None

    async def _until_over(self, way: Awaitable[None]) -> None:
        """Either way's end is the connection's: the error ends the other's task."""
        try:
            await way
        except ConnectionError:
            self.end(reset=True)
        except (OSError, EOFError):
            pass
        raise _OverError

    async def _requests(self, client: asyncio.StreamReader, to_broker: _OneWay) -> None:
        while (frame := await self._next(client, to_broker)) is not None:
            api = self._correlations.request(frame)
            await self._frame(frame, Way.REQUEST, api, to_broker)
        await self._swallow(client)

    async def _responses(self, broker: asyncio.StreamReader) -> None:
        try:
            while (frame := await self._next(broker, self._to_client)) is not None:
                api = self._correlations.response(frame)
                await self._frame(frame, Way.RESPONSE, api, self._to_client)
            await self._swallow(broker)
        except (OSError, EOFError):
            if not self._dark:
                raise
        if self._dark:
            await _for_ever()  # a black hole hides the broker's end from the client

    async def _next(self, reader: asyncio.StreamReader, way: _OneWay) -> bytes | None:
        """The next frame; None: no more frames are passed. Raises EOFError, NotKafkaError."""
        if self._ended or self._dark or way.shut:
            return None
        prefix = await reader.readexactly(LENGTH_BYTES)
        return prefix + await reader.readexactly(frame_length(prefix))

    async def _frame(self, frame: bytes, way: Way, api: int | None, to: _OneWay) -> None:
        if self._dark:
            return
        fault = self._script().decide(way, api)
        if fault is None:
            await to.write(frame)
        else:
            await self._carry_out(fault, frame, to)

    async def _carry_out(self, fault: Fault, frame: bytes, to: _OneWay) -> None:
        try:
            for step in steps(fault, frame, self._script().random):
                await self._do(step, to)
        finally:
            self._happened(fault)

    async def _do(self, step: Step, to: _OneWay) -> None:
        match step:
            case Pass(data):
                await to.write(data)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Pace(bytes_per_second):
                to.bytes_per_second = bytes_per_second
            case ShutDown():
                to.shut_down()
            case GoDark():
                self._dark = True
            case End(reset):
                self.end(reset=reset)
            case _:
                assert_never(step)

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while not self._ended and await reader.read(_READ_BYTES):
            pass


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
