"""Output for an event loop: a reader that is slow, or has gone, never blocks the loop."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from typing import Final

__all__ = ["ByteSink"]

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


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
