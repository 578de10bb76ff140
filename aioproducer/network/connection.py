"""One connection to one broker: connect, log in, write requests, read responses.

A response that can't be read ends the connection, and every request on it fails with the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from functools import partial
from random import Random
from typing import Any, NamedTuple, NoReturn, TypeAlias

from kio.static.protocol import RequestPayload, ResponsePayload

from aioproducer.auth.mechanism import Mechanism
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
)
from aioproducer.model import Peer
from aioproducer.network import frames
from aioproducer.network.apis import Api, BrokerVersions, response_to
from aioproducer.network.connection_end import explain_end
from aioproducer.network.frames import EncodedPayload
from aioproducer.network.handshake import ApiVersionsHandshake, api_versions_request
from aioproducer.network.in_flight import InFlightRequest, InFlightRequests
from aioproducer.network.lazy_metadata import LazyMetadataResponse
from aioproducer.network.round_trip import RoundTrip
from aioproducer.network.stream import ResponseProtocol, ResponseReader
from aioproducer.network.transport import SocketSettings, open_transport
from aioproducer.runtime.patience import PatientTimeout
from aioproducer.runtime.running_clock import RunningClock
from aioproducer.wording import duration

Answer: TypeAlias = asyncio.Future[tuple[InFlightRequest, bytes]]


class ConnectionEvents(NamedTuple):
    """The callbacks of a connection."""

    ready: Callable[[Connection], None]
    """Requests may be sent."""
    renewed: Callable[[Connection], None]
    """Requests may be sent again: the login was renewed."""
    response: Callable[
        [Connection, InFlightRequest, ResponsePayload | LazyMetadataResponse, int, float], None
    ]
    """A response of so many bytes, and the time of its end. The callback raises
    :class:`ProtocolError` for an impossible one."""
    written: Callable[[Connection, InFlightRequest], None]
    """A request without response was written to the socket."""
    anomaly: Callable[[Connection, str], None]
    """A harmless anomaly in a response."""


class ConnectionSettings(NamedTuple):
    """The settings of a connection. Times are seconds; ``mechanism`` None: no login."""

    client_id: str
    software_version: str
    request_timeout: float
    socket: SocketSettings
    mechanism: Mechanism | None = None

    @property
    def authenticates(self) -> bool:
        """True if one side has to show the other who it is."""
        return self.mechanism is not None or self.socket.tls is not None


class ConnectionState(Enum):
    """The states of a connection."""

    CONNECTING = "connecting"
    READY = "ready"
    CLOSED = "closed"


class Connection:
    """A connection that lives as long as its :meth:`run`."""

    def __init__(
        self,
        node: Peer,
        settings: ConnectionSettings,
        events: ConnectionEvents,
        *,
        setup_timeout: float,
        clock: RunningClock,
        random: Random,
    ) -> None:
        self.node = node
        self.state = ConnectionState.CONNECTING
        self.in_flight = InFlightRequests()
        self.versions = BrokerVersions(())
        self.last_used = clock() + clock.lost
        """The time of the last request or response, including what the clock left out."""
        self.login_due = float("inf")  # counted in the same way
        self.was_ready = False
        self.throttled_until = 0.0
        """The end of the broker's throttling."""
        self.renewal_seconds = 0.0
        """The duration of the last renewal of the login, in seconds."""
        self._settings = settings
        self._events = events
        self._setup_timeout = setup_timeout
        self._clock = clock
        self._random = random
        self._correlation_id = 0
        self._renewing = False
        self._answers: deque[Answer] = deque()
        """The responses to the connection's own requests (versions, login, barrier)."""
        self._reader: ResponseReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._abort_reason: ProducerError | None = None
        self._mechanism: Mechanism | None = None
        """The mechanism of the last login, with its credentials."""

    @property
    def received(self) -> int:
        """The number of pieces that have been received."""
        return 0 if self._reader is None else self._reader.pieces

    # --- sending ---------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """True if requests may be sent: it is set up, open, and not logging in again."""
        return (
            self.state is ConnectionState.READY
            and not self._renewing
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
        """Write a request, and return its size in bytes. ``answered``: the broker will respond.

        A request without response is in flight until its bytes are written to the socket. The parts
        of an encoded payload must not change while the request is in flight.
        """
        assert self._writer is not None
        now = self._clock()
        self.last_used = now + self._clock.lost
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        frame = frames.encode_request(payload, self._correlation_id, self._settings.client_id)
        kind = payload.kind if isinstance(payload, EncodedPayload) else type(payload)
        response, label = response_to(api, kind)
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
                self._check_written()
        return frame.size

    def _check_written(self) -> None:
        assert self._writer is not None
        if not self._writer.transport.get_write_buffer_size():
            for request in self.in_flight.take_written():
                self._events.written(self, request)

    def barrier(self) -> asyncio.Future[Any] | None:
        """Send a request behind all others; its future is done once the broker has read them all.

        None: no barrier is needed. Bytes may wait in the memory of TLS, where ``abort()`` drops
        them, and requests without response (``acks=0``) have no other proof. Brokers read requests
        in order.
        """
        reader, ready = self._reader, self.state is ConnectionState.READY
        if self._settings.socket.tls is None or not ready or reader is None or reader.ended.done():
            return None
        if not self._renewing:
            self._ask_versions(self.versions.choose(Api.API_VERSIONS))
        if not self._answers:  # else a step of the login serves as the barrier
            return None
        last = self._answers[-1]
        reader.ended.add_done_callback(lambda _: last.cancel())
        return last

    def abort(self, reason: ProducerError) -> None:
        """End the connection at once; its requests fail with ``reason``."""
        if self._abort_reason is None:
            self._abort_reason = reason
        if self._writer is not None:
            self._writer.transport.abort()

    # --- living ----------------------------------------------------------------------------

    async def run(self) -> ProducerError:
        """Connect and read responses until the connection ends; returns the reason."""
        try:
            try:
                await self._live(await self._open())
            except AuthenticationError as refusal:
                from aioproducer.network.login import has_changed

                if not await has_changed(self._settings.mechanism, since=self._mechanism):
                    raise
                await self._reopen(refusal)
        except (ProducerError, OSError, EOFError) as error:
            return self._abort_reason or self._explain(error)
        finally:
            self.state = ConnectionState.CLOSED
            if self._writer is not None:
                self._writer.transport.abort()
                with suppress(OSError):
                    await self._writer.wait_closed()

    async def _reopen(self, refusal: AuthenticationError) -> NoReturn:
        """Log in once more, at once and from the beginning: brokers end a refused connection.

        A connection that was in use ends instead, for its requests are lost; the next connection
        has the new credentials.
        """
        if self.was_ready:
            raise BrokerConnectionError(f"{refusal} (the credentials have changed meanwhile)")
        assert self._writer is not None
        self._writer.transport.abort()
        self._answers.clear()
        self.in_flight.clear()
        self.versions = BrokerVersions(())
        await self._live(await self._open())

    def _explain(self, error: Exception) -> ProducerError:
        tls, mechanism = self._settings.socket.tls, self._settings.mechanism
        known, ready = self.versions.known, self.was_ready
        return explain_end(error, self.node, tls, mechanism, greeted=known, ready=ready)

    async def _open(self) -> ResponseReader:
        loop = asyncio.get_running_loop()
        transport, protocol = await open_transport(
            self.node,
            self._settings.socket,
            self._setup_timeout,
            lambda: ResponseProtocol(
                ResponseReader(loop, self._receive), loop, self._check_written
            ),
        )
        reader = protocol.reader
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        self.round_trip = RoundTrip(transport.get_extra_info("socket"))
        if self._abort_reason is not None:
            raise self._abort_reason
        return reader

    async def _live(self, reader: ResponseReader) -> NoReturn:
        """Negotiate versions and log in, within a bound; then the reader does the work."""
        async with self._bounded("answer an ApiVersions request"):
            await self._negotiate_versions()
        renewal = await self._log_in()
        self.versions.choose(Api.METADATA)  # else there is nothing to ask of this broker
        self.state = ConnectionState.READY
        self.was_ready = True
        self._events.ready(self)
        while renewal is not None:
            await asyncio.wait([reader.ended], timeout=renewal)
            if reader.ended.done():
                break
            renewal = await self._renew()
        await reader.ended

    @asynccontextmanager
    async def _bounded(self, what: str) -> AsyncIterator[None]:
        bound = PatientTimeout(self._settings.request_timeout)
        try:
            async with bound:
                yield
        except TimeoutError:
            if not bound.expired():
                raise
            port = "TLS" if self._settings.socket.tls else "plain-text"
            hint = f". Is it a Kafka broker, and is this its {port} port?"
            raise BrokerConnectionError(
                f"accepted the connection, but did not {what} within "
                f"{duration(self._settings.request_timeout)}"
                f"{' (request_timeout_ms)' if self.versions.known else hint}"
            ) from None

    async def _negotiate_versions(self) -> None:
        handshake = ApiVersionsHandshake()
        while (version := handshake.next_version) is not None:
            request, body = await self._answer_to(self._ask_versions(version))
            assert request.response is not None
            handshake.receive(request.response, body)
        self.versions = handshake.versions

    async def _log_in(self) -> float | None:
        """Log in, where that is configured; the seconds until the next login, if there is one."""
        if self._settings.mechanism is None:
            return None
        from aioproducer.network.login import log_in, renewed_after

        mechanism = self._mechanism = await self._settings.mechanism.current()
        async with self._bounded(f"complete the {mechanism.name} login"):
            session = await log_in(mechanism, self.node.host, self.versions, self._send_and_receive)
        renewal = float("inf") if session is None else renewed_after(session, self._random)
        self.login_due = self._clock() + self._clock.lost + renewal
        return None if session is None else renewal

    async def _renew(self) -> float | None:
        """Log in again on the connection, behind what is in flight (KIP-368)."""
        self._renewing = True
        began = self._clock()
        renewal = await self._log_in()
        self.renewal_seconds = self._clock() - began
        self._renewing = False
        self._events.renewed(self)
        return renewal

    async def _send_and_receive(self, api: Api, payload: RequestPayload) -> ResponsePayload:
        request, body = await self._answer_to(self._put(api, payload))
        assert request.response is not None
        return frames.decode_response(request.response, body).response

    async def _answer_to(self, answer: Answer) -> tuple[InFlightRequest, bytes]:
        """Wait for the response to a request of the connection's own."""
        assert self._reader is not None
        either: list[asyncio.Future[Any]] = [answer, self._reader.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            await self._reader.ended
        return answer.result()

    def _ask_versions(self, version: int) -> Answer:
        request = api_versions_request(version, self._settings.software_version)
        return self._put(Api.API_VERSIONS, request)

    def _put(self, api: Api, payload: RequestPayload) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        used = self.last_used
        self.send(api, payload, None, timeout=self._settings.request_timeout)
        self.last_used = used  # it is no use that keeps a connection open
        return answer

    def _receive(self, body: bytes) -> None:
        request = self.in_flight.complete_next(frames.correlation_id(body))
        if request.context is not None:
            self._read_frame(request, body)
            return
        answer = self._answers.popleft()
        if not answer.done():
            answer.set_result((request, body))

    def _read_frame(self, request: InFlightRequest, body: bytes) -> None:
        assert request.response is not None
        now = self._clock()
        self.last_used = now + self._clock.lost
        response: ResponsePayload | LazyMetadataResponse
        try:
            if int(request.response.__api_key__) == Api.METADATA:
                response, left_over = self._lazy_metadata(request, body), 0
            else:
                response, left_over = frames.decode_response(request.response, body)
            self._events.response(self, request, response, len(body) + frames.LENGTH_BYTES, now)
        except ProtocolError:
            self.in_flight.restore(request)
            raise
        if left_over:
            self._report_left_over(request)

    def _lazy_metadata(self, request: InFlightRequest, body: bytes) -> LazyMetadataResponse:
        assert request.response is not None
        left_over = partial(self._report_left_over, request)
        return LazyMetadataResponse(
            request.response, body, on_refusal=self._refuse, on_left_over=left_over
        )

    def _report_left_over(self, request: InFlightRequest) -> None:
        self._events.anomaly(self, f"{request.label} responses end with unknown bytes")

    def _refuse(self, error: ProtocolError) -> None:
        """End the connection after a response that can't be read."""
        self.abort(self._explain(error))
