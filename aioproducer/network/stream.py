"""The stream of a connection: its bytes are cut into responses in the callback that brings them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

from aioproducer.network import frames
from aioproducer.network.forked_sockets import leave_to_parent


class ResponseReader(asyncio.StreamReader):
    """Passes on each whole response in the callback that brought the end of it.

    So no task has to wake up for it, which would take another iteration of the event loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_response: Callable[[bytes], None]
    ) -> None:
        super().__init__(loop=loop)
        self.ended: asyncio.Future[NoReturn] = loop.create_future()
        """Gets the error that ends the stream."""
        self.pieces = 0
        """The number of calls of :meth:`feed_data`."""
        self._responses = frames.ResponseCutter()
        self._on_response = on_response

    def feed_data(self, data: Any) -> None:
        """Called by the stream's protocol: ``data``, bytes, has come."""
        self.pieces += 1
        if self.ended.done():
            return
        self._responses.feed(data)
        try:
            while (body := self._responses.take()) is not None:
                self._on_response(body)
        except Exception as error:
            self.set_exception(error)

    def feed_eof(self) -> None:
        """Called by the stream's protocol: nothing more will come."""
        self.set_exception(asyncio.IncompleteReadError(self._responses.partial, None))

    def set_exception(self, exc: BaseException) -> None:
        """Called by the stream's protocol: the connection is lost."""
        if not self.ended.done():
            self.ended.set_exception(exc)
            self.ended.exception()


class ResponseProtocol(asyncio.StreamReaderProtocol):
    """Reports when the transport has written its buffer to the socket."""

    def __init__(
        self,
        reader: ResponseReader,
        loop: asyncio.AbstractEventLoop,
        on_written: Callable[[], None],
    ) -> None:
        super().__init__(reader, loop=loop)
        self.reader = reader
        self._on_written = on_written

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the connection is open."""
        super().connection_made(transport)
        self.transport = transport
        leave_to_parent(self)

    def resume_writing(self) -> None:
        """Called by the transport: its buffer is below its lower limit again."""
        super().resume_writing()
        self._on_written()
