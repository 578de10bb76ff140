"""All connections of a client: the brokers that can take a request, and completed requests.

Source: Kafka's ``NetworkClient``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from random import Random
from typing import Any, Final

from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.connection import (
    Connection,
    ConnectionEvents,
    Phase,
    Response,
)
from aioproducer.engine.network.connection_states import (
    ClientSettings,
    ConnectionLog,
    NodeConnectionState,
    NotSentError,
    RefusedLogins,
    is_refusal,
)
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import (
    Completion,
    InFlightRequest,
    read_response,
    throttle_seconds,
)
from aioproducer.engine.network.request import LazyResponse, Request
from aioproducer.engine.network.transport import prepare_tls
from aioproducer.engine.network.versions import (
    NO_FEATURES,
    UNCHECKED,
    WITH_FEATURES,
    BrokerIdentity,
    HangUps,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    BrokerConnectionError,
    NetworkError,
    ProducerError,
    RebootstrapRequiredError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.model import BootstrapServer, Node, NodeId, Peer

_PRODUCE: Final = Api.PRODUCE
_FETCH: Final = Api.FETCH
_MAY_BE_ASKED_TWICE: Final = frozenset(
    {Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.DESCRIBE_CONFIGS}
)
"""The requests to any broker that change nothing; an unused producer id is nothing, too."""


class _AskedOfAny:
    """A request that any of ``peers`` can answer. If one is slow, another gets it as well."""

    __slots__ = ("answered", "left", "next_at", "owing", "request")

    def __init__(self, request: Any, peers: Iterable[Peer]) -> None:
        self.request = request
        self.left = list(peers)
        """The brokers that were not asked."""
        self.owing: dict[NodeId, float] = {}
        """The brokers that have not answered, and the time at which each of them counts as slow."""
        self.next_at = inf
        """The time to ask another one."""
        self.answered = False
        """One of them has; the answers of the others are dropped."""

    def ask(self, node: NodeId, slow_at: float) -> None:
        """``node`` gets the request."""
        self.left = [peer for peer in self.left if peer.id != node]
        self.owing[node] = slow_at
        self.next_at = slow_at if self.left else inf


class NetworkClient:
    """Opens connections where they are needed, sends requests, and collects their responses.

    No method waits: ``wake`` is called when a connection opens or ends, or a request fails, and
    wakes the sender, or another owner, which takes the completions.
    ``connect_to`` makes a connection; it takes the arguments of :class:`Connection`.
    """

    def __init__(
        self,
        settings: ClientSettings,
        owner: TaskOwner,
        clock: RunningClock,
        random: Random,
        wake: Callable[[], None],
        metrics: ProducerMetrics,
        connect_to: Callable[..., Connection] = Connection,
    ) -> None:
        self.settings = settings
        self.owner = owner
        self.clock = clock
        self.random = random
        self.wake = wake
        self.metrics = metrics
        self.responded: Callable[[float], None] = lambda _: self.wake()
        """Called with the time when a response has completed a request, which
        :meth:`take_completed` returns; it calls ``wake`` until the sender sets its own."""
        self.features = NO_FEATURES
        """The newest features of any open connection, as of the last one that opened."""
        self.cluster_id: str | None = None
        """The cluster whose brokers are meant; None: it is not known, or not to be checked."""
        self.misrouted: Callable[[float], None] = lambda _: None
        """Called with the time when another broker answered than was meant (KIP-1242)."""
        self.failed: Callable[[], None] = lambda: None
        """Called when a known broker was not reached, or its connection was lost."""
        self.throttled: Callable[[Peer, float], None] = lambda _, __: None
        """Called with a broker and the seconds of pause that its response asks for; 0: no more."""
        self.connect_to = connect_to
        self.connections_opened = 0
        """The number of connections that became ready, since the start."""
        self.total_in_flight = 0
        """The number of requests of :meth:`send` that wait for a response; any thread may ask."""
        self._nodes: dict[NodeId, NodeConnectionState] = {}
        self.completed: list[Completion] = []
        self._refused_logins = RefusedLogins()
        self._asked_of_any: dict[int, _AskedOfAny] = {}
        """The requests of :meth:`send_to_any` without all of their answers, by ``id()``."""
        self._closed = False
        self._throttles = False
        """The last response that could ask for a pause has asked for one."""
        self._first_version = UNCHECKED
        """Of ApiVersions requests, as the last broker speaks them."""
        self._hang_ups = HangUps()
        self._has_lost = False
        """A connection was lost, or a known broker was not reached: others may be there by now."""
        self._max_in_flight: int = settings.max_in_flight
        self._max_idle: float = settings.connection.max_idle
        request_timeout = settings.connection.request_timeout
        self._shortest: float = min(request_timeout, self._max_idle)
        """Seconds after which a request or an idle connection is late at the earliest."""
        self._patience: float = min(tuning.SLOW_BROKER, request_timeout / 2)
        """Seconds after which another broker is asked as well, if any can answer."""
        self._look_due: float = inf
        """The time of the next look at the connections; often nothing is late at it."""
        self._looked_lost: float = 0.0
        """The time that the clock had left out at the last look; connections age in it as well."""
        self._log = ConnectionLog(settings.connection)
        self._events = ConnectionEvents(
            ready=self._on_ready,
            renewed=self._on_renewed,
            response=self._on_response,
            written=self._on_written,
            anomaly=self._on_anomaly,
        )

    # --- state -----------------------------------------------------------------------------

    def is_producing(self, node: NodeId) -> bool:
        """True if a produce request waits for a response of ``node``."""
        state: NodeConnectionState | None = self._nodes.get(node)
        exchange: Exchange | None = None if state is None else state.exchange
        if exchange is not None:
            request: InFlightRequest
            for request in exchange.in_flight:
                if request.form.api is _PRODUCE:
                    return True
        return False

    def is_producing_anywhere(self) -> bool:
        """True if a produce request waits for a response of any broker."""
        return any(map(self.is_producing, self._nodes))

    def reaches(self, nodes: Iterable[Peer]) -> bool:
        """True if a connection to any of ``nodes`` is ready."""
        states = (self._nodes.get(node.id) for node in nodes)
        return any(state is not None and state.is_ready for state in states)

    def supporting(self, api: Api, nodes: Iterable[Peer]) -> list[Peer]:
        """The members of ``nodes`` that are connected and support ``api``."""
        states = ((node, self._nodes.get(node.id)) for node in nodes)
        return [node for node, state in states if state is not None and state.supports(api)]

    def connection_count(self) -> int:
        """The number of connections that are ready."""
        return sum(1 for state in list(self._nodes.values()) if state.is_ready)

    def can_send(self, node: NodeId, now: float) -> bool:
        """True if ``node`` can take a request now."""
        state: NodeConnectionState | None = self._nodes.get(node)
        exchange: Exchange | None = None if state is None else state.exchange
        return exchange is not None and exchange.takes(now, self._max_in_flight, self._max_idle)

    def ready(self, node: Peer, now: float) -> bool:
        """True if ``node`` can take a request now; else connect as soon as its backoff is over."""
        if self.can_send(node.id, now):
            return True
        self.connect(node, now)
        return False

    def not_before(self, node: NodeId, now: float) -> float | None:
        """The end of the node's backoff or throttling; None if it has neither."""
        state = self._nodes.get(node)
        if state is None:
            return None
        exchange = state.exchange
        moment = state.not_before if exchange is None else exchange.throttled_until
        return moment if moment > now else None

    def next_chance(self, nodes: Iterable[Peer], now: float) -> float | None:
        """The first end of a backoff or throttling among ``nodes``."""
        moments = [self.not_before(node.id, now) for node in nodes]
        return min((moment for moment in moments if moment is not None), default=None)

    def least_loaded(self, nodes: Iterable[Peer], now: float) -> Peer | None:
        """The node for a request that any broker can answer: idle before busy, connected first.

        Brokers come last that are slow to connect or to answer such a request, or whose last
        connection failed: they may be silent.
        None: all are in backoff, throttled or full. Ties are broken at random.
        """
        candidates = [
            (rank, self.random.random(), node)
            for node in nodes
            if (rank := self._rank(node.id, now)) is not None
        ]
        return min(candidates, default=(0, 0.0, None), key=lambda each: each[:2])[2]

    def _rank(self, node: NodeId, now: float) -> int | None:
        connecting = self.settings.max_in_flight
        unconnected, doubtful = connecting + 1, connecting + 2
        state = self._nodes.get(node) or NodeConnectionState()
        connection = state.connection
        if connection is None or connection.timeouts.is_left(now):
            rank = doubtful if state.failures else unconnected
            return None if state.not_before > now else rank
        if self.can_send(node, now):
            return doubtful if self._is_slow(node, now) else len(connection.in_flight)
        if connection.phase is Phase.CONNECTING:
            return doubtful if connection.timeouts.is_slow(now) else connecting
        return None

    def _is_slow(self, node: NodeId, now: float) -> bool:
        """True if ``node`` owes an answer for so long that another broker is asked as well."""
        return any(each.owing.get(node, inf) <= now for each in self._asked_of_any.values())

    def connections(self) -> list[ConnectionView]:
        """The connection of each broker; any thread may ask."""
        return [state.view(node) for node, state in tuple(self._nodes.items())]

    def failures(self) -> dict[NodeId, ProducerError]:
        """The last error of each node without a connection."""
        return {
            node: state.last_error
            for node, state in self._nodes.items()
            if state.last_error is not None
        }

    def versions(self, node: NodeId | None = None) -> dict[str, tuple[int, int]]:
        """The versions of ``node``, None: of any broker, if it is connected; none otherwise."""
        states = self._nodes.items()
        ready = (each.connection for at, each in states if each.is_ready and node in (None, at))
        return next((each.versions.by_name for each in ready if each is not None), {})

    @property
    def has_refused_logins(self) -> bool:
        """True if the last login at any broker was refused."""
        return bool(self._refused_logins.nodes)

    def refusal(self, nodes: Iterable[Peer]) -> ProducerError | None:
        """See :meth:`RefusedLogins.error`."""
        return self._refused_logins.error(nodes, self._nodes)

    # --- actions ---------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Read the files of TLS. Raises :class:`ConfigError` if one of them can't be used."""
        await prepare_tls(self.settings.connection.socket.tls, self.settings.setup_timeout)

    def connect(self, node: Peer, now: float) -> None:
        """Connect to ``node``, unless it has a connection or is in backoff."""
        state = self._nodes.setdefault(node.id, NodeConnectionState())
        if state.connection is not None:
            if state.connection.node[:3] != node[:3]:
                why = "the broker has a new address"
                state.connection.abort(BrokerConnectionError(f"{node}: {why}"))
            elif state.connection.timeouts.is_left(now):
                state.connection.abort(state.connection.timeouts.why_idle(now))
            return
        if state.not_before > now or self._closed:
            return
        highest = self._hang_ups.highest((node.host, node.port), now)
        connection = self.connect_to(
            node,
            self.settings.connection,
            self._events,
            setup_timeout=state.setup_timeout(self.settings, self.random),
            clock=self.clock,
            random=self.random,
            identity=self._identity(node),
            first_version=min(self._first_version, highest),
            highest_version=highest,
            is_doubtful=self._has_lost,
        )
        state.tries(connection, now)
        self._look_by(now + tuning.SLOW_BROKER)
        self.owner.start(self._run(state, connection), name=f"aioproducer-connection-{node.id}")

    def _identity(self, node: Peer) -> BrokerIdentity | None:
        """The broker that has to answer at the address of ``node``; None: any may."""
        if self.cluster_id is None or isinstance(node, BootstrapServer):
            return None
        return BrokerIdentity(self.cluster_id, node.id)

    def end(self, node: NodeId, reason: ProducerError) -> None:
        """End the connection to ``node``, if there is one."""
        state = self._nodes.get(node)
        if state is not None and state.connection is not None:
            state.connection.abort(reason)

    def send(self, node: NodeId, request: Request, now: float) -> None:
        """Send ``request`` to a node that can take it. ``now``: its timeout begins then.

        A request that no version of the broker supports fails on its own the second time. The first
        time its connection ends as well, and the next connection asks for the versions again.
        """
        state: NodeConnectionState = self._nodes[node]
        exchange: Exchange | None
        connection, exchange = state.connection, state.exchange
        assert connection is not None
        assert exchange is not None
        try:
            payload = request.build(connection.versions[request.api])
        except ProducerError as error:
            self._complete(self._not_sent(node, state, connection, request, error))
            return
        if state.unsupported:
            state.unsupported.discard(request.api)
        self.total_in_flight += 1
        size: int = exchange.send(payload, request, now, request.answered)
        if now + self._shortest < self._look_due:
            self._look_due = now + self._shortest
        self.metrics.request_sent(node, size, now)
        if now >= self._log.level_due:
            self._log.read_level(now)
        if self._log.debugs:
            self._log.sent(connection, request.api, size)

    def send_to_any(
        self, node: NodeId, request: Request, peers: Collection[Peer], now: float
    ) -> None:
        """Send ``request`` to ``node``, the least loaded of ``peers``, all of which can answer it.

        If it does not answer within a second, another one gets the request as well, if it changes
        nothing. The first answer is the only one that :meth:`take_completed` returns.
        """
        if len(peers) > 1 and request.api in _MAY_BE_ASKED_TWICE:
            asked = self._asked_of_any[id(request)] = _AskedOfAny(request, peers)
            self._send_copy(asked, node, now)
        else:
            self.send(node, request, now)

    def _send_copy(self, asked: _AskedOfAny, node: NodeId, now: float) -> None:
        asked.ask(node, now + self._patience)
        self._look_by(asked.next_at)
        self.send(node, asked.request, now)

    def _ask_others(self, now: float) -> None:
        """Send the requests whose brokers are slow to others as well."""
        for asked in list(self._asked_of_any.values()):
            if asked.next_at <= now:
                node = self.least_loaded(asked.left, now)
                if node is not None and self.ready(node, now):
                    self._send_copy(asked, node.id, now)
            self._look_by(asked.next_at if asked.next_at > now else now + self._patience)

    def _is_first(self, completion: Completion) -> bool:
        """True unless another broker has answered the same request, or may still do."""
        asked = self._asked_of_any.get(id(completion.request))
        if asked is None:
            return True
        asked.owing.pop(completion.node, None)
        if not asked.owing:
            del self._asked_of_any[id(completion.request)]
        lost = isinstance(completion.error, NetworkError | RequestTimeoutError)
        if asked.answered or (lost and asked.owing):
            return False
        asked.answered, asked.next_at = True, inf
        return True

    def _not_sent(
        self,
        node: NodeId,
        state: NodeConnectionState,
        connection: Connection,
        request: Request,
        error: ProducerError,
    ) -> Completion:
        """The end of a request that no version of the broker supports."""
        if request.api not in state.unsupported:
            state.unsupported.add(request.api)
            why = f"{connection.node}: reconnecting to ask for its API versions again: {error}"
            connection.abort(BrokerConnectionError(why))
            error = NotSentError(why)
        elif type(error) is UnsupportedVersionError:
            error = UnsupportedVersionError(f"{connection.node}: {error}")
        return Completion(request, node, None, error, 0.0)

    def take_completed(self) -> list[Completion]:
        """The requests that were completed since the last call."""
        completed, self.completed = self.completed, []
        if self._asked_of_any:
            return [each for each in completed if self._is_first(each)]
        return completed

    def poll(self, now: float) -> float | None:
        """End the connections that are late or idle; the moment to look again, if any."""
        due = self.next_timeout()
        if due is not None and due <= now:
            looks = (self._look(each, now) for each in self._connections())
            self._look_due, self._looked_lost = min(looks, default=inf), self.clock.lost
        if self._asked_of_any:
            self._ask_others(now)
        return self.next_timeout()

    def _look(self, connection: Connection, now: float) -> float:
        """The next moment to look at ``connection``; ends it if there is a reason."""
        found = connection.timeouts.look(now)
        if isinstance(found, ProducerError):
            connection.abort(found)
            return inf
        return found

    def next_timeout(self) -> float | None:
        """The moment at which :meth:`poll` is due, if any."""
        if self._look_due == inf:
            return None
        return self._look_due if self.clock.lost == self._looked_lost else -inf

    def _look_by(self, moment: float) -> None:
        """Look at the connections at ``moment`` at the latest."""
        self._look_due = min(self._look_due, moment)

    def received(self) -> tuple[int, float]:
        """The pieces that the open connections have received, and the seconds of stops so far.

        While either grows, more may have arrived.
        """
        open_ones = (each.exchange for each in self._connections() if each.exchange is not None)
        return sum(exchange.pieces for exchange in open_ones), self.clock.lost

    def leave(self, node: NodeId) -> bool:
        """End the connection to ``node``: others serve instead. False: it is still in use."""
        state = self._nodes.get(node)
        return state is None or state.connection is None or state.connection.leave()

    def _connections(self) -> Iterator[Connection]:
        states = self._nodes.values()
        return (state.connection for state in states if state.connection is not None)

    def forget_except(self, nodes: Iterable[NodeId]) -> None:
        """Drop the state of brokers that left the cluster and have no connection."""
        kept = set(nodes)
        for node, state in list(self._nodes.items()):
            if node not in kept and state.connection is None:
                del self._nodes[node]
                self._refused_logins.forgotten(node)
                self.metrics.forget_node(node)
                self._log.forgotten(node)

    def barriers(self) -> list[asyncio.Future[Any]]:
        """Send a :meth:`Connection.barrier` on each connection that needs one (``acks=0``)."""
        barriers = [connection.barrier() for connection in self._connections()]
        return [barrier for barrier in barriers if barrier is not None]

    def close(self) -> None:
        """Abort every connection. No connection opens after this."""
        self._closed = True
        for connection in self._connections():
            connection.abort(BrokerConnectionError("the client was closed"))

    # --- events of connections -------------------------------------------------------------

    async def _run(self, state: NodeConnectionState, connection: Connection) -> None:
        try:
            reason = await connection.run()
        except BaseException:
            state.connection = state.exchange = None
            raise
        self._on_disconnect(state, connection, reason)

    def _on_ready(self, connection: Connection) -> None:
        state, now = self._nodes[connection.node.id], self.clock()
        self._log.opened(connection, state, now)
        state.opened(now)
        self._refused_logins.let_in(connection.node.id)
        newest = connection.versions.to_ask_again
        self._hang_ups.answered((connection.node.host, connection.node.port), newest)
        self.connections_opened += 1
        self.features = max(
            (each.versions.features for each in self._connections() if each.phase.was_ready),
            key=lambda features: features.epoch,
        )
        self._first_version = max(newest, WITH_FEATURES)
        self._look_by(now + self._max_idle)
        if self._asked_of_any:
            self._look_by(now)  # it may answer what another broker owes
        self.metrics.connection_opened(now)
        if self.settings.connection.authenticates:
            self.metrics.logged_in(now)
        self.wake()

    def _on_renewed(self, connection: Connection) -> None:
        self.metrics.login_renewed(connection.renewal_seconds, self.clock())
        self._log.renewed(connection)
        self.wake()

    def _on_response(
        self,
        connection: Connection,
        request: InFlightRequest,
        response: Response,
        size: int,
        now: float,
    ) -> None:
        pause: float | None
        if type(response) is tuple:  # it is read already; a message has a class of its own
            request.result, pause = response
        else:
            request.result, pause = _read(request.request, response)
        latency: float
        request.latency = latency = now - request.sent
        node, api = request.node, request.form.api
        if api is _PRODUCE:
            round_trip = connection.round_trip
            if now >= round_trip.stale_at:
                round_trip.ask(now)
            seconds = round_trip.seconds
            self.metrics.response_received(node, size, pause, now, latency, seconds)
        elif api is _FETCH:
            self.metrics.response_received(node, size, pause, now, latency)
        else:
            self.metrics.response_received(node, size, pause, now)
        if pause or self._throttles:
            self._throttle(connection, pause, now)
        if self._log.debugs:
            self._log.answered(connection, request)
        self.total_in_flight -= 1
        self.completed.append(request)
        responded = self.responded  # a local name is cheaper to call
        responded(now)

    def _throttle(self, connection: Connection, pause: float | None, now: float) -> None:
        """Keep the pause that a broker asks for; None: its response can't ask."""
        if pause is None:
            return
        self._throttles = pause > 0
        if pause:
            self._log.throttled(connection, pause)
            exchange = connection.exchange
            assert exchange is not None
            exchange.throttled_until = max(exchange.throttled_until, now + pause)
        self.throttled(connection.node, pause)

    def _on_anomaly(self, connection: Connection, what: str) -> None:
        state = self._nodes.get(connection.node.id)  # None: a response read after its connection
        if state is not None and what not in state.anomalies:
            state.anomalies.add(what)
            self._log.anomaly(connection, what)

    def _on_written(self, connection: Connection, request: InFlightRequest) -> None:
        request.latency = self.clock() - request.sent
        self.total_in_flight -= 1
        self._complete(request)

    def _on_disconnect(
        self, state: NodeConnectionState, connection: Connection, reason: ProducerError
    ) -> None:
        """Complete each request in flight with an error; :mod:`aioproducer.engine.sender.completer`
        says what becomes of its batches."""
        now = self.clock()
        node, was_ready, refused = connection.node, connection.phase.was_ready, is_refusal(reason)
        if refused:
            self._refused_logins.refused(node.id)
            self.metrics.login_refused(now, renewal=was_ready)
        hung_up_at = connection.hung_up_at
        is_left = connection.phase is Phase.LEFT
        self._has_lost |= not is_left and (was_ready or isinstance(node, Node))
        address = node.host, node.port
        state.ended(
            reason,
            self.settings,
            now,
            self.random,
            refusals=self._refused_logins.in_a_row,
            at_once=hung_up_at is not None and self._hang_ups.hung_up(address, hung_up_at, now),
        )
        if was_ready:
            self.metrics.connection_closed(now)
        if not (self._closed or hung_up_at):
            self._log.ended(connection, reason)
        # Another broker may take what was in flight; this one's refusal says nothing about it.
        elsewhere = refused or isinstance(reason, RebootstrapRequiredError)
        lost = BrokerConnectionError(str(reason)) if elsewhere else reason
        for request in connection.in_flight.take_all():
            if request.request is not None:
                request.error, request.latency = lost, now - request.sent
                self.total_in_flight -= 1
                self._complete(request)
        if state.last_error is reason and isinstance(node, Node) and not self._closed:
            self.failed()
        if isinstance(reason, RebootstrapRequiredError) and not was_ready:
            self.misrouted(now)
        self.wake()

    def _complete(self, completion: Completion) -> None:
        self.completed.append(completion)
        self.wake()


def _read(request: Request, response: Any) -> tuple[Any, float | None]:
    """The value of a response, and the pause that the broker asks for; None: it can't ask."""
    if isinstance(response, LazyResponse):
        result = request.read(response)  # a generator: the one who asked reads it in steps
    else:
        result = read_response(response, request.read)
    return result, throttle_seconds(response)
