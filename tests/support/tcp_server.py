"""A bare TCP server: one listener whose connections all end with it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from aioproducer.testing.ports import ReservedPort

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """One listener on loopback whose connections all end with it; with TLS, if there is ``tls``."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.host = "127.0.0.1"
        self.port = 0
        self.accepted = 0
        self.failures: list[BaseException] = []
        self._reserved: ReservedPort | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Listen; after :meth:`stop` again on the same port."""
        self._release()
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()  # it came in while the server closed
            return
        self.accepted += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Also a task that was cancelled before its first step."""
        self._tasks.pop(task).transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._handler(reader, writer)
        except (OSError, EOFError):
            pass
        except Exception as error:
            self.failures.append(error)

    async def cut(self) -> None:
        """End every connection, and wait until it has ended."""
        tasks = dict(self._tasks)
        for task, writer in tasks.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Refuse connections, and cut those that there are."""
        if self._stop_listening():
            self._reserved = ReservedPort(self.host, self.port)
        await self.cut()

    async def close(self) -> None:
        """The same for good."""
        self._stop_listening()
        self._release()
        await self.cut()

    def _stop_listening(self) -> bool:
        """Whether it did listen."""
        if self._server is None:
            return False
        self._server.close()
        self._server = None
        return True

    def _release(self) -> None:
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None
