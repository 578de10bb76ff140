"""Input and output for an event loop, which never block it, whatever the file descriptor is."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from typing import Final

__all__ = [
    "ByteSource",
    "ByteSink",
]


_CHUNK = 262144


class ByteSource:
    """Chunks of a file descriptor, which stays in blocking mode: a terminal's is the shell's too.

    Pipes, sockets and terminals are read when the loop says that there is something, and then give
    what there is. Regular files (epoll refuses them) are read in a thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stopped = False
        self._waiter: asyncio.Future[None] | None = None
        self._in_thread = False

    @property
    def size(self) -> int | None:
        """The number of bytes to come; None if it is unknown."""
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return max(0, status.st_size - os.lseek(self._descriptor, 0, os.SEEK_CUR))

    @property
    def stopped(self) -> bool:
        """True if `stop()` was called."""
        return self._stopped

    def stop(self) -> None:
        """End the input with the next chunk, or with the one that is waited for."""
        self._stopped = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes:
        """The next chunk; empty at the end. Raises OSError."""
        if not self._in_thread and not self._stopped:
            await self._until_readable()
        if self._stopped:
            return b""
        if self._in_thread:
            return await asyncio.to_thread(os.read, self._descriptor, _CHUNK)
        return os.read(self._descriptor, _CHUNK)

    async def _until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _resolve, waiter)
        except PermissionError:
            self._in_thread = True
            return
        try:
            await waiter
        finally:
            loop.remove_reader(self._descriptor)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


_PIPE_BUF: Final = select.PIPE_BUF
"""A pipe that is writable takes so many bytes without blocking (POSIX)."""


class ByteSink:
    """Writes to a file descriptor, which stays in blocking mode: a terminal's is the shell's too.

    Pipes, sockets and terminals are written to, little by little, when the kernel says that there
    is room. Regular files always have room.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._may_block = os.isatty(descriptor) or _is_pipe(descriptor)

    @property
    def broken(self) -> bool:
        """True if nobody reads any more."""
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in self._poll.poll(0))

    async def write(self, data: bytes) -> None:
        """Write all of ``data``. Raises OSError; BrokenPipeError if nobody reads any more."""
        view = memoryview(data)
        while view:
            if not self._may_block:
                view = view[os.write(self._descriptor, view) :]
                continue
            if not self._poll.poll(0):
                await self._until_writable()
            view = view[os.write(self._descriptor, view[:_PIPE_BUF]) :]

    async def _until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        loop.add_writer(self._descriptor, _resolve, waiter)
        try:
            await waiter
        finally:
            loop.remove_writer(self._descriptor)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
