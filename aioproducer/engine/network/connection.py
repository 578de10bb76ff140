"""The life of one connection to one broker: connect, log in, log in again, end.

:class:`Exchange` writes its requests and reads the responses. A response that can't be read ends
the connection, and every request on it fails with the reason.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import IncompleteReadError
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network import frames
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import EncodedPayload, InFlightRequest, InFlightRequests
from aioproducer.engine.network.request import (
    LazyMetadataResponse,
    LazyResponse,
    decode_in_steps,
)
from aioproducer.engine.network.timeouts import ConnectionTimeouts, RoundTrip
from aioproducer.engine.network.transport import SocketSettings, open_transport
from aioproducer.engine.network.versions import (
    CHECKED,
    UNCHECKED,
    ApiVersionsHandshake,
    BrokerIdentity,
    BrokerVersions,
    api_versions_request,
    check_cluster,
    cluster_request,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
    RebootstrapRequiredError,
    UsageError,
)
from aioproducer.errors.client import anew
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.foundation.runtime.tasks import in_turns, new_task
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.model import BootstrapServer, Peer

if TYPE_CHECKING:
    from aioproducer.auth.mechanism import Mechanism
    from aioproducer.auth.tls import TlsContexts


_OR_A_PROXY: Final = (
    "Else look at what is in between: a load balancer without a broker, a limit of connections, "
    "or a proxy that knows none of the ApiVersions versions 4, 3 and 0"
)


def is_hang_up(error: Exception) -> bool:
    """True if the peer ended the connection, between two responses."""
    if isinstance(error, IncompleteReadError):
        return not error.partial
    return isinstance(error, ConnectionError) and not isinstance(error, ProducerError)


def _awaited(tls: TlsContexts | None, mechanism: Mechanism | None) -> str:
    """The next step of the broker during the set-up."""
    if mechanism is not None:
        return f"accepted the {mechanism.name} login"
    if tls is not None:
        return f"sent its API versions; is it Kafka's TLS port? {_OR_A_PROXY}"
    return (
        "sent its API versions. If the port speaks TLS, set security_protocol to 'SSL' or "
        f"'SASL_SSL'. {_OR_A_PROXY}"
    )


REFUSALS: Final = (AuthenticationError, UsageError)
"""The errors of a refused login: a broker's, or this side's, which finds a certificate's file
unreadable, or an extra not installed."""
_READ_AT_ONCE: Final = 5_000
"""Elements of a large response that the event loop's thread reads, after they are decoded."""
_READS: Final = ThreadForEach("aioproducer-response")
_READ_BY_THE_ASKER: Final = (Api.METADATA, Api.FETCH)
"""The requests whose large responses are read by the part of the client that asks."""

Answer: TypeAlias = asyncio.Future[tuple[InFlightRequest, bytes]]
Response: TypeAlias = Any
"""A message of :func:`response_schema`, a :class:`LazyResponse`, or a usual response."""


class ConnectionEvents(NamedTuple):
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


class ConnectionSettings(NamedTuple):
    """The settings of a connection. Times are seconds; ``mechanism`` None: no login."""

    client_id: str
    software_version: str
    request_timeout: float
    socket: SocketSettings
    max_idle: float
    mechanism: Mechanism | None = None

    @property
    def authenticates(self) -> bool:
        """True if one side has to show the other who it is."""
        return self.mechanism is not None or self.socket.tls is not None


class Phase(Enum):
    """The phases of a connection's life; :data:`_NEXT` lists those that may follow each."""

    CONNECTING = "connecting"
    """It reaches an address, negotiates versions, logs in and checks the broker's identity."""
    READY = "ready"
    """Requests may be sent."""
    RENEWING = "renewing"
    """It logs in again, and no request may be sent."""
    FAILED = "failed"
    """It ended before it was ready."""
    LOST = "lost"
    """It was ready, and ended."""
    LEFT = "left"
    """It was closed because it is not needed any more. That is no failure."""

    @property
    def is_connected(self) -> bool:
        """True once the connection is set up, until it ends."""
        return self in (Phase.READY, Phase.RENEWING)

    @property
    def was_ready(self) -> bool:
        """True once the connection is set up, also after its end."""
        return self not in (Phase.CONNECTING, Phase.FAILED)


_NEXT: Final = {
    Phase.CONNECTING: (Phase.READY, Phase.FAILED),
    Phase.READY: (Phase.RENEWING, Phase.LOST, Phase.LEFT),
    Phase.RENEWING: (Phase.READY, Phase.LOST, Phase.LEFT),
    Phase.FAILED: (),
    Phase.LOST: (),
    Phase.LEFT: (),
}


class BufferedExchange(Exchange, asyncio.BufferedProtocol):
    """An exchange that the event loop knows as a buffered protocol; a compiled class can't be one
    by itself."""

    __slots__ = ()


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
        highest_version: int = CHECKED,
        is_doubtful: bool = False,
    ) -> None:
        """Prepare a connection to ``node``.

        ``identity``: the broker that has to be there; None: any. ``first_version``: the version of
        ApiVersions to begin with; ``highest_version``: the newest one to ask with.
        ``is_doubtful``: a broker that does not check its identity is asked for its cluster.
        """
        self.node = node
        self.phase = Phase.CONNECTING
        """Changed by :meth:`_enter` alone."""
        self.asks_for_login = False
        """True once it has ended as a connection does whose broker requires a login."""
        self.reason: ProducerError | None = None
        """The reason of its end; None: it has not ended."""
        self.in_flight = InFlightRequests()
        self.versions = BrokerVersions(())
        self.exchange: Exchange | None = None
        """What passes over the open connection; None: it is not open yet."""
        self.timeouts = ConnectionTimeouts(node, settings.request_timeout, settings.max_idle, clock)
        self.renewal_seconds = 0.0
        """The duration of the last renewal of the login, in seconds."""
        self.hung_up_at: int | None = None
        """The version of the ApiVersions request at which the peer hung up; None: it did not."""
        self._asked: int | None = None
        """The version of such a request during the set-up, until its response has come."""
        self._spoken = 0
        """The version of the last response to one."""
        self._settings = settings
        self._events = events
        self._identity = identity
        self._first_version = first_version
        self._highest_version = highest_version
        self._is_doubtful = is_doubtful
        self._setup_timeout = setup_timeout
        self._clock = clock
        self._random = random
        self._set_up_by = 0
        """The correlation id of the last request of the set-up."""
        self._answers: deque[Answer] = deque()
        """The responses to the connection's own requests (versions, login, barrier)."""
        self._login_due = inf
        """The time at which the login ends, on the clock of :attr:`Exchange.last_used`."""
        self._opening: asyncio.Task[Any] | None = None
        self._reading: asyncio.Task[None] | None = None
        """Reads a large response."""
        self._mechanism: Mechanism | None = None
        """The mechanism of the last login, with its credentials."""

    # --- sending ---------------------------------------------------------------------------

    def barrier(self) -> asyncio.Future[Any] | None:
        """Send a request after all others; its future is done once the broker has read them all.

        None: no barrier is needed. Bytes may wait in the memory of TLS, where ``abort()`` drops
        them, and requests without response (``acks=0``) have no other proof. Brokers read requests
        in order.
        """
        exchange = self.exchange
        if self._settings.socket.tls is None or exchange is None or exchange.error is not None:
            return None
        if self.phase is Phase.READY:
            self._ask_versions(self._spoken)
        elif self.phase is not Phase.RENEWING or not self._answers:
            return None
        either = self._answers[-1], exchange.ended  # or a step of the login serves as the barrier
        return new_task(asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED))

    # --- living ----------------------------------------------------------------------------

    def abort(self, reason: ProducerError, *, is_needed: bool = True) -> None:
        """End the connection at once; its requests fail with the first reason.

        ``is_needed``: False if the connection is closed because nothing needs it.
        """
        if self.reason is not None:
            return
        lost = Phase.LOST if self.phase.is_connected else Phase.FAILED
        self._enter(lost if is_needed else Phase.LEFT)
        self.reason = reason
        if self.exchange is not None:
            self.exchange.abort()
        elif self._opening is not None:
            self._opening.cancel()  # an address that is silent would hold up the next connection

    def leave(self) -> bool:
        """End a connection that is not needed any more; False: a request is in flight."""
        if not self.phase.is_connected or self.in_flight:
            return False
        known = BrokerConnectionError(f"{self.node}: the cluster is known now")
        self.abort(known, is_needed=False)
        return True

    def _enter(self, phase: Phase) -> None:
        """Go on to ``phase``. Raises the reason if the connection has ended meanwhile."""
        if self.reason is not None:
            raise self.reason
        assert phase in _NEXT[self.phase], f"from {self.phase} to {phase}"
        if self.exchange is not None and phase is Phase.READY and self.phase is Phase.CONNECTING:
            self._set_up_by = self.exchange.correlation_id
        self.phase = phase
        if self.exchange is not None:
            self.exchange.usable_until = self._login_due if phase is Phase.READY else -inf

    async def run(self) -> ProducerError:
        """Connect and read responses until the connection ends; returns the reason."""
        try:
            try:
                await self._live()
            except AuthenticationError as refusal:
                from aioproducer.engine.network.login import has_changed

                if not await has_changed(self._settings.mechanism, since=self._mechanism):
                    raise
                await self._reopen(refusal)
        except (ProducerError, OSError, EOFError) as error:
            if self.reason is None:
                self.hung_up_at = self._asked if is_hang_up(error) else None
                self.abort(self._explain(error))
            assert self.reason is not None
            return self.reason
        finally:
            self.abort(BrokerConnectionError(f"{self.node}: the connection's task has ended"))
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait([self._reading])
            await self._close()

    async def _reopen(self, refusal: AuthenticationError) -> NoReturn:
        """Log in once more, at once and from the beginning: brokers end a refused connection.

        A connection that was in use ends instead, for its requests are lost; the next connection
        has the new credentials.
        """
        if self.phase.was_ready:
            raise BrokerConnectionError(f"{refusal} (the credentials have changed meanwhile)")
        await self._close()
        self.exchange = None
        self._answers.clear()
        self.in_flight.clear()
        self.versions = BrokerVersions(())
        await self._live()

    async def _close(self) -> None:
        """Close the socket, if there is one."""
        exchange = self.exchange
        if exchange is not None and not exchange.ended.done():
            exchange.abort()
            await asyncio.wait([exchange.ended])

    def _explain(self, error: Exception) -> ProducerError:
        """The reason of an end by ``error``: what it means, and the step at which it came."""
        node, tls, is_greeted = self.node, self._settings.socket.tls, self.versions.known
        if isinstance(error, ssl.SSLError) and tls is not None:
            from aioproducer.auth.tls_errors import explain_tls

            options, secured = tls.options, not is_greeted
            return explain_tls(error, node, host=node.host, options=options, secured=secured)
        if isinstance(error, (*REFUSALS, RebootstrapRequiredError)):
            explained = anew(error)
            explained.args = (f"{node}: {error}",)
            return explained
        if isinstance(error, ProtocolError):
            return ProtocolError(f"{node}: {error}")
        when = ""
        if is_hang_up(error) and self._is_login_missing():
            self.asks_for_login = True
            protocol = "SASL_PLAINTEXT" if tls is None else "SASL_SSL"
            when = (
                " instead of answering the first request. If this port requires a login, set "
                f"security_protocol to '{protocol}'"
            )
        elif is_hang_up(error) and not self.phase.was_ready:
            when = f" before it {_awaited(tls, self._settings.mechanism if is_greeted else None)}"
        elif not isinstance(error, IncompleteReadError):
            return BrokerConnectionError(f"{node}: {error}")
        elif error.partial:
            when = f" inside a response ({len(error.partial)} bytes of it had arrived)"
        return BrokerConnectionError(f"{node} closed the connection{when}")

    def _is_login_missing(self) -> bool:
        """True if there was no login, and the first request after the set-up has no answer: brokers
        that want a login tell their versions, and hang up at anything else."""
        if self._settings.mechanism is not None or not self.phase.was_ready or not self.in_flight:
            return False
        if not isinstance(self.node, BootstrapServer):
            return False  # the client has been served already
        return self.in_flight[0].correlation_id == self._set_up_by + 1

    async def _open(self) -> Exchange:
        if self.reason is not None:
            raise self.reason
        self._opening = opening = new_task(
            open_transport(self.node, self._settings.socket, self._setup_timeout, self._exchange)
        )
        try:
            transport, exchange = await opening
        except asyncio.CancelledError:
            if not opening.cancelled() and opening.exception() is None:
                self.exchange = opening.result()[1]  # it was open already: run() ends it
            if self.reason is not None and opening.cancelled():
                raise self.reason from None
            raise
        self.exchange = exchange
        self._socket = transport.get_extra_info("socket")
        self.round_trip = RoundTrip(self._socket)
        if self.reason is not None:
            raise self.reason
        return exchange

    def _exchange(self) -> Exchange:
        return BufferedExchange(
            self.node.id,
            self._settings.client_id,
            self._clock,
            self.in_flight,
            self.timeouts.began,
            partial(self._events.response, self),
            self._take_other,
            partial(self._events.written, self),
        )

    async def _live(self) -> NoReturn:
        """Open it, negotiate versions and log in, within bounds; then the stream does the work."""
        exchange = await self._open()
        first, before_login = self._first_version, self._settings.mechanism is not None
        if self._identity is None or before_login:
            first = min(first, UNCHECKED)  # there is nothing to check, or the broker would not
        async with self._bounded("answer an ApiVersions request"):
            await self._negotiate_versions(first)
        renewal = await self._log_in()
        self.versions[Api.METADATA]  # else there is nothing to ask of this broker
        if self._identity is not None and self._spoken < CHECKED:
            await self._check_identity(self._identity)
        self._enter(Phase.READY)
        self.timeouts.opened(exchange, self._socket)
        self._events.ready(self)
        while True:
            await asyncio.wait([exchange.ended], timeout=renewal)
            if exchange.ended.done():
                exchange.ended.result()
            renewal = await self._renew()

    @asynccontextmanager
    async def _bounded(
        self, what: str, more: Callable[[], float] = lambda: 0.0
    ) -> AsyncIterator[None]:
        bound = PatientTimeout(self._settings.request_timeout, more=more)
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

    async def _check_identity(self, identity: BrokerIdentity) -> None:
        """End the connection if another broker answers, as far as the broker is able to say so."""
        if min(self._highest_version, self.versions.to_ask_again) >= CHECKED:
            async with self._bounded("answer an ApiVersions request"):
                await self._negotiate_versions(CHECKED)
        if self._is_doubtful and self._spoken < CHECKED:
            async with self._bounded("answer a Metadata request"):
                check_cluster(await self._cluster_id(), identity)

    async def _cluster_id(self) -> str | None:
        """The id of the cluster to which the broker belongs; None: it does not say so."""
        asked = self._put(cluster_request(self.versions[Api.METADATA]))
        lazy, _ = self._decoded(*await self._answer_to(asked))
        reading = lazy.read(())
        try:
            while True:
                for _ in range(tuning.METADATA_STEPS_PER_TURN):
                    next(reading)
                await asyncio.sleep(0)
        except StopIteration as end:
            news: MetadataNews = end.value
            return news.cluster_id

    async def _negotiate_versions(self, first: int) -> None:
        handshake = ApiVersionsHandshake(first)
        while (version := handshake.next_version) is not None:
            self._asked = version
            request, body = await self._answer_to(self._ask_versions(version))
            self._asked, self._spoken = None, version
            handshake.receive(request.form.version, body)
        self.versions = handshake.versions

    async def _log_in(self, more: Callable[[], float] = lambda: 0.0) -> float | None:
        """Log in, where that is configured; the seconds until the next login, if there is one.

        ``more``: the seconds that the login gets after ``request_timeout_ms``.
        """
        if self._settings.mechanism is None:
            return None
        from aioproducer.engine.network.login import log_in, renewed_after

        mechanism = self._mechanism = await self._settings.mechanism.current()
        async with self._bounded(f"complete the {mechanism.name} login", more):
            session = await log_in(mechanism, self.node.host, self.versions, self._send_and_receive)
        renewal = inf if session is None else renewed_after(session, self._random)
        self._login_due = self._clock() + self._clock.lost + renewal
        return None if session is None else renewal

    async def _renew(self) -> float | None:
        """Log in again on the connection, after what is in flight (KIP-368)."""
        self._enter(Phase.RENEWING)
        began = self._clock()
        renewal = await self._log_in(self.timeouts.time_after_requests())
        self.renewal_seconds = self._clock() - began
        self._enter(Phase.READY)
        self._events.renewed(self)
        return renewal

    async def _send_and_receive(self, payload: EncodedPayload) -> Any:
        request, body = await self._answer_to(self._put(payload))
        return frames.decode_response(request.form.api, request.form.version, body).response

    async def _answer_to(self, answer: Answer) -> tuple[InFlightRequest, bytes]:
        """Wait for the response to a request of the connection's own."""
        assert self.exchange is not None
        ended = self.exchange.ended
        either: list[asyncio.Future[Any]] = [answer, ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            ended.result()
        return answer.result()

    def _ask_versions(self, version: int) -> Answer:
        software = self._settings.software_version
        return self._put(api_versions_request(version, software, self._identity))

    def _put(self, payload: EncodedPayload) -> Answer:
        exchange = self.exchange
        assert exchange is not None
        answer: Answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        used = exchange.last_used
        exchange.send(payload, None, self._clock())
        exchange.last_used = used  # it is no use that keeps a connection open
        return answer

    def _take_other(self, request: InFlightRequest, body: bytes, now: float) -> bool:
        """Take a response to a request of the connection's own, or one that is not as usual.

        True: it is large, and :meth:`_read_large` takes it.
        """
        if request.request is None:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_result((request, body))
            return False
        is_large = len(body) > frames.MAX_DECODED_AT_ONCE
        if is_large and request.form.api not in _READ_BY_THE_ASKER:
            self._reading = new_task(self._read_large(request, body))
            return True
        response, left_over = self._decoded(request, body)
        self._events.response(self, request, response, frames.LENGTH_BYTES + len(body), now)
        if left_over:
            self._report_left_over(request)
        return False

    async def _read_large(self, request: InFlightRequest, body: bytes) -> None:
        """Decode a large response in steps, and take it.

        What comes after it waits, since the results of requests are in their order.
        """
        exchange = self.exchange
        assert exchange is not None
        try:
            await asyncio.sleep(0)  # an eager task would begin before the stream is paused
            form = request.form
            decoded, elements = await in_turns(decode_in_steps(form.api, form.version, body))
            response = decoded.response
            read = partial(frames.read_response, response, request.request.read)
            if elements < _READ_AT_ONCE:
                result = read()
            else:
                result = await asyncio.get_running_loop().run_in_executor(_READS, read)
            result_and_pause = result, frames.throttle_seconds(response)
            if exchange.error is not None:
                return  # the request has failed with the connection
            self.in_flight.remove(request)
            now, size = self._clock(), frames.LENGTH_BYTES + len(body)
            try:
                self._events.response(self, request, result_and_pause, size, now)
            except ProtocolError:
                self.in_flight.appendleft(request)
                raise
            if decoded.left_over:
                self._report_left_over(request)
        except Exception as error:
            exchange.fail(error)
        else:
            exchange.read_on()

    def _decoded(self, request: InFlightRequest, body: bytes) -> tuple[Response, int]:
        """The response, and the number of bytes after it."""
        api, version = request.form.api, request.form.version
        is_large = len(body) > frames.MAX_DECODED_AT_ONCE
        if api is not Api.METADATA and (api is not Api.FETCH or not is_large):
            return frames.decode_response(api, version, body)
        kind = LazyMetadataResponse if api is Api.METADATA else partial(LazyResponse, api)
        left_over = partial(self._report_left_over, request)
        return kind(version, body, on_refusal=self._refuse, on_left_over=left_over), 0

    def _report_left_over(self, request: InFlightRequest) -> None:
        self._events.anomaly(self, f"{request.form.label} responses end with unknown bytes")

    def _refuse(self, error: ProtocolError) -> None:
        """End the connection after a response that can't be read."""
        self.abort(self._explain(error))
