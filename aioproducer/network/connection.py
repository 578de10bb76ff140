"""One connection to one broker: connect, agree on versions, write requests, read responses.

On any doubt about what arrives, the connection ends and every request on it fails with the reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, NoReturn

from kio.static.protocol import RequestPayload, ResponsePayload

from aioproducer.errors import (
    BrokerConnectionError,
    NetworkError,
    ProducerError,
    ProtocolError,
)
from aioproducer.model import Peer
from aioproducer.network import frames
from aioproducer.network.apis import Api, BrokerVersions, request_module, response_type
from aioproducer.network.frames import EncodedPayload
from aioproducer.network.handshake import ApiVersionsHandshake
from aioproducer.network.in_flight import InFlightRequest, InFlightRequests
from aioproducer.network.metadata_answer import MetadataAnswer
from aioproducer.network.resolve import resolve

logger = logging.getLogger(__name__)

OnResponse = Callable[["Connection", InFlightRequest, ResponsePayload | MetadataAnswer, int], None]
OnLeft = Callable[["Connection", InFlightRequest], None]
OnOddity = Callable[["Connection", str], None]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What a connection needs to know. Times are seconds, sizes bytes (-1: the system's own)."""

    client_id: str
    software_version: str
    request_timeout: float
    send_buffer_bytes: int
    receive_buffer_bytes: int


class ConnectionState(Enum):
    """How far a connection has come."""

    CONNECTING = "connecting"
    READY = "ready"
    CLOSED = "closed"


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
        self._responses = frames.ResponseCutter()
        self._on_response = on_response

    def feed_data(self, data: Any) -> None:
        """Called by the stream's protocol: ``data``, bytes, has come."""
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
    """Tells when what was held up has left for the socket."""

    def __init__(
        self, reader: ResponseReader, loop: asyncio.AbstractEventLoop, on_left: Callable[[], None]
    ) -> None:
        super().__init__(reader, loop=loop)
        self._on_left = on_left

    def resume_writing(self) -> None:
        """Called by the transport: its buffer is below its lower limit again."""
        super().resume_writing()
        self._on_left()


class Connection:
    """A connection that lives as long as its :meth:`run`.

    ``on_ready`` is called once requests may be sent, ``on_response`` for each answer (if it raises
    :class:`ProtocolError`, the answer can't be true), ``on_left`` when a request that gets no
    answer has left for the socket, ``on_oddity`` with what is odd and does no harm.
    """

    def __init__(
        self,
        node: Peer,
        settings: ConnectionSettings,
        *,
        setup_timeout: float,
        clock: Callable[[], float],
        on_ready: Callable[[Connection], None],
        on_response: OnResponse,
        on_left: OnLeft,
        on_oddity: OnOddity,
    ) -> None:
        self.node = node
        self.state = ConnectionState.CONNECTING
        self.in_flight = InFlightRequests()
        self.versions = BrokerVersions(())
        self.last_used = clock()
        self.was_ready = False
        self.throttled_until = 0.0
        """Until then the broker wants no request."""
        self._settings = settings
        self._setup_timeout = setup_timeout
        self._clock = clock
        self._on_ready = on_ready
        self._on_response = on_response
        self._tell_left = on_left
        self._tell_oddity = on_oddity
        self._correlation_id = 0
        self._handshake = ApiVersionsHandshake()
        self._handshake_bound = asyncio.Timeout(None)
        self._reader: ResponseReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._abort_reason: ProducerError | None = None

    # --- sending ---------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether requests may be sent: versions are agreed on, and the end is not near."""
        return (
            self.state is ConnectionState.READY
            and self._reader is not None
            and not self._reader.ended.done()
            and self._writer is not None
            and not self._writer.is_closing()
        )

    def send(
        self,
        api: Api,
        payload: RequestPayload | EncodedPayload,
        context: Any,
        *,
        timeout: float,
        answered: bool = True,
    ) -> int:
        """Write a request; how many bytes it has. ``answered``: the broker will respond.

        One without answer is in flight until its bytes have left for the socket. Until a request is
        in flight no more, the parts of an encoded payload must not change.
        """
        assert self._writer is not None
        now = self.last_used = self._clock()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        frame = frames.encode_request(payload, self._correlation_id, self._settings.client_id)
        kind = payload.kind if isinstance(payload, EncodedPayload) else type(payload)
        response, label = _answer(api, kind)
        request = InFlightRequest(
            self._correlation_id,
            response if answered else None,
            context,
            now,
            now + timeout,
            label,
        )
        self.in_flight.add(request)
        if not self._writer.is_closing():  # else the request ends with the connection, very soon
            self._writer.writelines(frame.pieces)
            if not answered:
                self._writer.transport.set_write_buffer_limits(high=0)
                self._look_what_left()
        return frame.size

    def _look_what_left(self) -> None:
        assert self._writer is not None
        if not self._writer.transport.get_write_buffer_size():
            for request in self.in_flight.left():
                self._tell_left(self, request)

    def abort(self, reason: ProducerError) -> None:
        """End the connection at once; its requests fail with ``reason``."""
        if self._abort_reason is None:
            self._abort_reason = reason
        if self._writer is not None:
            self._writer.transport.abort()

    # --- living ----------------------------------------------------------------------------

    async def run(self) -> ProducerError:
        """Connect and read responses until the connection ends; returns why it did."""
        try:
            await self._live(await self._connect())
        except (ProducerError, OSError, EOFError) as error:
            return self._abort_reason or self._explain(error)
        finally:
            self.state = ConnectionState.CLOSED
            if self._writer is not None:
                self._writer.transport.abort()
                with suppress(OSError):
                    await self._writer.wait_closed()

    def _explain(self, error: Exception) -> NetworkError:
        if isinstance(error, ProtocolError):
            return ProtocolError(f"{self.node}: {error}")
        if isinstance(error, asyncio.IncompleteReadError):
            when = ""
            if error.partial:
                when = f" inside a response ({len(error.partial)} bytes of it had come)"
            elif not self.was_ready:
                when = " before it said which versions it speaks; is it Kafka's plain-text port?"
            return BrokerConnectionError(f"{self.node} closed the connection{when}")
        return BrokerConnectionError(f"{self.node}: {error}")

    async def _connect(self) -> ResponseReader:
        """Try every address of the host, each for the set-up timeout."""
        reasons = []
        try:
            async with asyncio.timeout(self._setup_timeout):
                addresses = await resolve(self.node.host, self.node.port)
        except TimeoutError:
            raise BrokerConnectionError(
                f"the name {self.node.host!r} was not resolved in {self._setup_timeout:.1f} s"
            ) from None
        for host, port in addresses:
            try:
                async with asyncio.timeout(self._setup_timeout):
                    self._reader, self._writer = await self._open(host, port)
            except TimeoutError:
                reasons.append(f"{host}: no connection within {self._setup_timeout:.1f} s")
            except OSError as error:
                reasons.append(f"{host}: {os.strerror(error.errno) if error.errno else error}")
            else:
                self._set_socket_options(self._writer.get_extra_info("socket"))
                if self._abort_reason is not None:
                    raise self._abort_reason
                return self._reader
        raise BrokerConnectionError("; ".join(reasons))

    async def _open(self, host: str, port: int) -> tuple[ResponseReader, asyncio.StreamWriter]:
        """As :func:`asyncio.open_connection`, with a reader of our own."""
        loop = asyncio.get_running_loop()
        reader = ResponseReader(loop, self._receive)
        protocol = ResponseProtocol(reader, loop, self._look_what_left)
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _set_socket_options(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._settings.send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings.send_buffer_bytes)
        if self._settings.receive_buffer_bytes >= 0:
            size = self._settings.receive_buffer_bytes
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    async def _live(self, reader: ResponseReader) -> NoReturn:
        """Agree on versions, within a bound; then let the reader do the work until it ends."""
        try:
            async with self._handshake_bound as bound:
                now = asyncio.get_running_loop().time()
                bound.reschedule(now + self._settings.request_timeout)
                self._ask_for_versions()
                await reader.ended
        except TimeoutError:
            if not self._handshake_bound.expired():
                raise
            raise BrokerConnectionError(
                f"accepted the connection, but did not answer an ApiVersions request within "
                f"{self._settings.request_timeout:.1f} s. Is it a Kafka broker, and is this its "
                "plain-text port?"
            ) from None

    def _ask_for_versions(self) -> bool:
        """Send the next question of the handshake; False: there is none any more."""
        version = self._handshake.next_version
        if version is None:
            return False
        self.send(
            Api.API_VERSIONS,
            self._api_versions_request(version),
            None,
            timeout=self._settings.request_timeout,
        )
        return True

    def _api_versions_request(self, version: int) -> RequestPayload:
        module = request_module(Api.API_VERSIONS, version)
        request: RequestPayload
        if version >= 3:
            request = module.ApiVersionsRequest(
                client_software_name="aioproducer",
                client_software_version=self._settings.software_version,
            )
        else:
            request = module.ApiVersionsRequest()
        return request

    def _receive(self, body: bytes) -> None:
        request = self.in_flight.answered(frames.correlation_id(body))
        if self.state is ConnectionState.READY:
            self._read_frame(request, body)
        else:
            self._shake_hands(request, body)

    def _read_frame(self, request: InFlightRequest, body: bytes) -> None:
        assert request.response is not None
        self.last_used = self._clock()
        response: ResponsePayload | MetadataAnswer
        try:
            if int(request.response.__api_key__) == Api.METADATA:
                response, left_over = self._metadata_answer(request, body), 0
            else:
                response, left_over = frames.decode_response(request.response, body)
            self._on_response(self, request, response, len(body) + frames.LENGTH_BYTES)
        except ProtocolError:
            self.in_flight.restore(request)
            raise
        if left_over:
            self._tell_left_over(request)

    def _metadata_answer(self, request: InFlightRequest, body: bytes) -> MetadataAnswer:
        assert request.response is not None
        return MetadataAnswer(
            request.response,
            body,
            on_refusal=self._refuse,
            on_left_over=partial(self._tell_left_over, request),
        )

    def _tell_left_over(self, request: InFlightRequest) -> None:
        self._tell_oddity(self, f"{request.label} responses end with bytes that mean nothing")

    def _refuse(self, error: ProtocolError) -> None:
        """End the connection, for what it brought can't be understood."""
        self.abort(self._explain(error))

    def _shake_hands(self, request: InFlightRequest, body: bytes) -> None:
        assert request.response is not None
        self._handshake.receive(request.response, body)
        if self._ask_for_versions():
            return
        self.versions = self._handshake.versions
        self.versions.choose(Api.METADATA)  # else there is nothing to ask of this broker
        self._handshake_bound.reschedule(None)
        self.state = ConnectionState.READY
        self.was_ready = True
        self._on_ready(self)


@cache
def _answer(api: Api, kind: type[RequestPayload]) -> tuple[type[ResponsePayload], str]:
    """The response to a request, and what to call the request in messages."""
    version = int(kind.__version__)
    return response_type(api, version), f"{api.name} v{version}"
