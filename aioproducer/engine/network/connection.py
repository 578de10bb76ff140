"""One connection to one broker: connect, log in, write requests, read responses.

A response that can't be read ends the connection, and every request on it fails with the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final, NoReturn, TypeAlias, cast

from aioproducer.auth.mechanism import Mechanism
from aioproducer.engine.network import frames
from aioproducer.engine.network.connection_end import explain_end
from aioproducer.engine.network.forked_sockets import leave_to_parent
from aioproducer.engine.network.frames import EncodedPayload
from aioproducer.engine.network.handshake import (
    CHECKED,
    UNCHECKED,
    ApiVersionsHandshake,
    BrokerIdentity,
    api_versions_request,
)
from aioproducer.engine.network.in_flight import InFlightRequest, InFlightRequests
from aioproducer.engine.network.lazy_metadata import LazyMetadataResponse
from aioproducer.engine.network.round_trip import RoundTrip
from aioproducer.engine.network.transport import SocketSettings, open_transport
from aioproducer.engine.network.versions import BrokerVersions
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
)
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.foundation.wording import duration
from aioproducer.model import Peer

Answer: TypeAlias = asyncio.Future[tuple[InFlightRequest, bytes]]
Response: TypeAlias = Any
"""A message of :func:`response_schema`, a :class:`LazyMetadataResponse`, or a usual response."""


@dataclass(slots=True, eq=False, repr=False)
class ConnectionEvents:
    """The callbacks of a connection."""

    ready: Callable[[Connection], None]
    """Requests may be sent."""
    renewed: Callable[[Connection], None]
    """Requests may be sent again: the login was renewed."""
    response: Callable[[Connection, InFlightRequest, Response, int, float], None]
    """A response of so many bytes, and the time of its end. The callback raises
    :class:`ProtocolError` for an impossible one."""
    written: Callable[[Connection, InFlightRequest], None]
    """A request without response was written to the socket."""
    anomaly: Callable[[Connection, str], None]
    """A harmless anomaly in a response."""


@dataclass(slots=True, eq=False, repr=False)
class ConnectionSettings:
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


_READY: Final = ConnectionState.READY


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
        identity: BrokerIdentity | None = None,
        first_version: int = UNCHECKED,
    ) -> None:
        """Prepare a connection to ``node``.

        ``identity``: the broker that has to be there; None: any. ``first_version``: the version of
        ApiVersions to begin with.
        """
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
        self._identity = identity
        self._first_version = first_version
        self._setup_timeout = setup_timeout
        self._clock = clock
        self._random = random
        self._correlation_id = 0
        self._renewing = False
        self._answers: deque[Answer] = deque()
        """The responses to the connection's own requests (versions, login, barrier)."""
        self._stream: ResponseStream | None = None
        self._abort_reason: ProducerError | None = None
        self._mechanism: Mechanism | None = None
        """The mechanism of the last login, with its credentials."""

    @property
    def received(self) -> int:
        """The number of pieces that have been received."""
        return 0 if self._stream is None else self._stream.pieces

    # --- sending ---------------------------------------------------------------------------

    def is_usable(self) -> bool:
        """True if requests may be sent: it is set up, open, and not logging in again."""
        stream = self._stream
        return (
            self.state is _READY
            and not self._renewing
            and stream is not None
            and stream.is_open
            and not stream.transport.is_closing()
        )

    def send(
        self,
        payload: EncodedPayload,
        request: Any,
        now: float,
        *,
        timeout: float,
        answered: bool = True,
    ) -> int:
        """Write a request, and return its size in bytes. ``answered``: the broker will respond.

        ``request``: the sender's own object, which comes back with the response. A request without
        response is in flight until its bytes are written to the socket. The parts of an encoded
        payload must not change while the request is in flight.
        """
        assert self._stream is not None
        transport = self._stream.transport
        self.last_used = now + self._clock.lost
        number = self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        form = frames.request_form(payload.api, payload.version, self._settings.client_id)
        pieces, size = frames.encode_request(payload.parts, number, form)
        deadline, read_usual = now + timeout, payload.read_usual
        self.in_flight.append(
            InFlightRequest(
                request, self.node.id, number, form, now, deadline, read_usual, answered=answered
            )
        )
        if not transport.is_closing():  # else the request ends with the connection, very soon
            transport.writelines(pieces)
            if not answered:
                transport.set_write_buffer_limits(high=0)
                self._check_written()
        return size

    def _check_written(self) -> None:
        assert self._stream is not None
        if not self._stream.transport.get_write_buffer_size():
            for request in self.in_flight.take_written():
                self._events.written(self, request)

    def barrier(self) -> asyncio.Future[Any] | None:
        """Send a request after all others; its future is done once the broker has read them all.

        None: no barrier is needed. Bytes may wait in the memory of TLS, where ``abort()`` drops
        them, and requests without response (``acks=0``) have no other proof. Brokers read requests
        in order.
        """
        stream, ready = self._stream, self.state is ConnectionState.READY
        if self._settings.socket.tls is None or not ready or stream is None or not stream.is_open:
            return None
        if not self._renewing:
            self._ask_versions(self.versions.to_ask_again)
        if not self._answers:  # else a step of the login serves as the barrier
            return None
        last = self._answers[-1]
        stream.ended.add_done_callback(lambda _: last.cancel())
        return last

    def abort(self, reason: ProducerError) -> None:
        """End the connection at once; its requests fail with ``reason``."""
        if self._abort_reason is None:
            self._abort_reason = reason
        if self._stream is not None:
            self._stream.transport.abort()

    # --- living ----------------------------------------------------------------------------

    async def run(self) -> ProducerError:
        """Connect and read responses until the connection ends; returns the reason."""
        try:
            try:
                await self._live(await self._open())
            except AuthenticationError as refusal:
                from aioproducer.engine.network.login import has_changed

                if not await has_changed(self._settings.mechanism, since=self._mechanism):
                    raise
                await self._reopen(refusal)
        except (ProducerError, OSError, EOFError) as error:
            return self._abort_reason or self._explain(error)
        finally:
            self.state = ConnectionState.CLOSED
            if self._stream is not None:
                self._stream.transport.abort()
                await self._stream.closed.wait()

    async def _reopen(self, refusal: AuthenticationError) -> NoReturn:
        """Log in once more, at once and from the beginning: brokers end a refused connection.

        A connection that was in use ends instead, for its requests are lost; the next connection
        has the new credentials.
        """
        if self.was_ready:
            raise BrokerConnectionError(f"{refusal} (the credentials have changed meanwhile)")
        assert self._stream is not None
        self._stream.transport.abort()
        self._answers.clear()
        self.in_flight.clear()
        self.versions = BrokerVersions(())
        await self._live(await self._open())

    def _explain(self, error: Exception) -> ProducerError:
        tls, mechanism = self._settings.socket.tls, self._settings.mechanism
        known, ready = self.versions.known, self.was_ready
        return explain_end(error, self.node, tls, mechanism, greeted=known, ready=ready)

    async def _open(self) -> ResponseStream:
        loop = asyncio.get_running_loop()
        transport, stream = await open_transport(
            self.node,
            self._settings.socket,
            self._setup_timeout,
            lambda: ResponseStream(loop, self._receive, self._check_written),
        )
        self._stream = stream
        self.round_trip = RoundTrip(transport.get_extra_info("socket"))
        if self._abort_reason is not None:
            raise self._abort_reason
        return stream

    async def _live(self, stream: ResponseStream) -> NoReturn:
        """Negotiate versions and log in, within a bound; then the stream does the work."""
        first, before_login = self._first_version, self._settings.mechanism is not None
        if self._identity is None or before_login:
            first = min(first, UNCHECKED)  # there is nothing to check, or the broker would not
        async with self._bounded("answer an ApiVersions request"):
            await self._negotiate_versions(first)
        renewal = await self._log_in()
        if self._identity is not None and (before_login or first < CHECKED):
            await self._check_identity()
        self.versions[Api.METADATA]  # else there is nothing to ask of this broker
        self.state = ConnectionState.READY
        self.was_ready = True
        self._events.ready(self)
        while renewal is not None:
            await asyncio.wait([stream.ended], timeout=renewal)
            if not stream.is_open:
                break
            renewal = await self._renew()
        await stream.ended

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

    async def _check_identity(self) -> None:
        """End the connection if another broker answers, unless the broker is too old to say so."""
        if self.versions.to_ask_again >= CHECKED:
            async with self._bounded("answer an ApiVersions request"):
                await self._negotiate_versions(CHECKED)

    async def _negotiate_versions(self, first: int) -> None:
        handshake = ApiVersionsHandshake(first)
        while (version := handshake.next_version) is not None:
            request, body = await self._answer_to(self._ask_versions(version))
            handshake.receive(request.form.version, body)
        self.versions = handshake.versions

    async def _log_in(self) -> float | None:
        """Log in, where that is configured; the seconds until the next login, if there is one."""
        if self._settings.mechanism is None:
            return None
        from aioproducer.engine.network.login import log_in, renewed_after

        mechanism = self._mechanism = await self._settings.mechanism.current()
        async with self._bounded(f"complete the {mechanism.name} login"):
            session = await log_in(mechanism, self.node.host, self.versions, self._send_and_receive)
        renewal = float("inf") if session is None else renewed_after(session, self._random)
        self.login_due = self._clock() + self._clock.lost + renewal
        return None if session is None else renewal

    async def _renew(self) -> float | None:
        """Log in again on the connection, after what is in flight (KIP-368)."""
        self._renewing = True
        began = self._clock()
        renewal = await self._log_in()
        self.renewal_seconds = self._clock() - began
        self._renewing = False
        self._events.renewed(self)
        return renewal

    async def _send_and_receive(self, payload: EncodedPayload) -> Any:
        request, body = await self._answer_to(self._put(payload))
        return frames.decode_response(request.form.api, request.form.version, body).response

    async def _answer_to(self, answer: Answer) -> tuple[InFlightRequest, bytes]:
        """Wait for the response to a request of the connection's own."""
        assert self._stream is not None
        ended = self._stream.ended
        either: list[asyncio.Future[Any]] = [answer, ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            await ended
        return answer.result()

    def _ask_versions(self, version: int) -> Answer:
        software = self._settings.software_version
        return self._put(api_versions_request(version, software, self._identity))

    def _put(self, payload: EncodedPayload) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        used = self.last_used
        self.send(payload, None, self._clock(), timeout=self._settings.request_timeout)
        self.last_used = used  # it is no use that keeps a connection open
        return answer

    def _receive(self, body: bytes) -> None:
        """Take a whole response, which begins with its header."""
        in_flight, (number,) = self.in_flight, frames.leading_number(body)
        if in_flight and in_flight[0].correlation_id == number and in_flight[0].answered:
            request = in_flight.popleft()
        else:
            request = in_flight.take(number)
        if request.request is None:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_result((request, body))
            return
        clock, read_usual, tell = self._clock, request.read_usual, self._events.response
        now = clock()
        self.last_used = now + clock.lost
        response: Response | None = None if read_usual is None else read_usual(body)
        left_over = 0
        try:
            if response is None:
                response, left_over = self._decoded(request, body)
            tell(self, request, response, frames.LENGTH_BYTES + len(body), now)
        except ProtocolError:
            self.in_flight.appendleft(request)  # it counts as unanswered
            raise
        if left_over:
            self._report_left_over(request)

    def _decoded(self, request: InFlightRequest, body: bytes) -> tuple[Response, int]:
        """The response, and the number of bytes after it."""
        api, version = request.form.api, request.form.version
        if api is not Api.METADATA:
            return frames.decode_response(api, version, body)
        left_over = partial(self._report_left_over, request)
        lazy = LazyMetadataResponse(version, body, on_refusal=self._refuse, on_left_over=left_over)
        return lazy, 0

    def _report_left_over(self, request: InFlightRequest) -> None:
        self._events.anomaly(self, f"{request.form.label} responses end with unknown bytes")

    def _refuse(self, error: ProtocolError) -> None:
        """End the connection after a response that can't be read."""
        self.abort(self._explain(error))


class ResponseStream(asyncio.Protocol):
    """The stream of a connection, which passes on each whole response.

    It does so in the callback that brought the end of the response. So no task has to wake up for
    it, which would take another iteration of the event loop.

    ``on_written`` is called when the transport has written its buffer to the socket.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_response: Callable[[bytes], None],
        on_written: Callable[[], None],
    ) -> None:
        self.ended: asyncio.Future[NoReturn] = loop.create_future()
        """Gets the error that ends the stream."""
        self.is_open = True
        """False once the stream has ended: nothing is read or written any more."""
        self.closed = asyncio.Event()
        """Set when the transport has closed its socket."""
        self.pieces = 0
        """The number of pieces that have come."""
        self._responses = frames.ResponseCutter()
        self._on_response = on_response
        self._on_written = on_written

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the connection is open."""
        self.transport = cast(asyncio.Transport, transport)
        leave_to_parent(self)

    def data_received(self, data: bytes) -> None:
        """Called by the transport: ``data`` has come, which usually is one whole response."""
        self.pieces += 1
        if not self.is_open:
            return
        responses, length = self._responses, len(data) - frames.LENGTH_BYTES
        try:
            if (
                length >= frames.LENGTH_BYTES
                and responses.is_between
                and frames.leading_number(data) == (length,)
            ):
                self._on_response(data[frames.LENGTH_BYTES :])
                return
            responses.feed(data)
            while (body := responses.take()) is not None:
                self._on_response(body)
        except Exception as error:
            self._end(error)

    def eof_received(self) -> None:
        """Called by the transport: nothing more will come."""
        self._end(asyncio.IncompleteReadError(self._responses.partial, None))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport: its socket is closed."""
        self._end(exc or asyncio.IncompleteReadError(self._responses.partial, None))
        self.closed.set()

    def resume_writing(self) -> None:
        """Called by the transport: its buffer is below its lower limit again."""
        self._on_written()

    def _end(self, error: Exception) -> None:
        self.is_open = False
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()
