"""The state of each broker at the client: connection, failures and reconnect backoff.

Source: Kafka's ``ClusterConnectionStates``. :class:`NodeConnectionState` is one broker's,
:class:`RefusedLogins` has the rule for refused logins, and :class:`ConnectionLog` writes the log
lines about them: what repeats is counted by broker and reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from aioproducer.engine.network.connection import REFUSALS, Connection, ConnectionSettings, Phase
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import InFlightRequest
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import BrokerConnectionError, ProducerError, Written
from aioproducer.foundation import logs
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import counted, duration
from aioproducer.model import BootstrapServer, NodeId, Peer

logger = logs.ModuleLogger("aioproducer.network.client")

LOGIN_BACKOFF: Final = 1.0
LOGIN_BACKOFF_MAX: Final = 60.0
"""Seconds of backoff after a refused login, doubled each time: directories lock an account after
repeated failures."""


class NotSentError(BrokerConnectionError):
    """The request was not sent, because the connection's broker supports no version of it.

    The connection was ended, so that the next one asks for the versions again.
    """

    written = Written.NO


@dataclass(slots=True, eq=False, repr=False)
class ClientSettings:
    """The settings of the client. Times are seconds."""

    connection: ConnectionSettings
    max_in_flight: int
    setup_timeout: float
    setup_timeout_max: float
    reconnect_backoff: float
    reconnect_backoff_max: float
    login_backoff: float = LOGIN_BACKOFF
    login_backoff_max: float = LOGIN_BACKOFF_MAX


class NodeConnectionState:
    """One broker's connection, or the reason and the backoff before the next one."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.exchange: Exchange | None = None
        """That of :attr:`connection`, since it takes requests."""
        self.failures = 0
        self.setup_failures = 0
        self.not_before = 0.0
        self.refused = False
        """The broker refused the last login."""
        self.last_error: ProducerError | None = None
        self.unsupported: set[Api] = set()
        """The APIs without a common version, as the previous connection found."""
        self.anomalies: set[str] = set()
        """The anomalies that were logged."""
        self.peer: Peer | None = None
        """The address of the last attempt to connect."""
        self.since = 0.0
        """The time of the last change: connected, lost, or first attempt to connect."""
        self.failing_since: float | None = None
        """The beginning of the first attempt that failed since it was connected."""
        self.reachable_since: float | None = None
        """The first connection since the last failed attempt."""

    @property
    def is_ready(self) -> bool:
        """True from the moment its connection takes requests until its end is handled."""
        connection = self.connection
        return connection is not None and connection.phase.was_ready

    @property
    def in_flight_count(self) -> int:
        """The number of requests without a response; any thread may ask."""
        connection = self.connection
        return 0 if connection is None else len(connection.in_flight)

    def supports(self, api: Api) -> bool:
        """True if its connection takes requests of ``api``."""
        connection = self.connection
        return self.is_ready and connection is not None and connection.versions.supports(api)

    @property
    def setup_error(self) -> ProducerError | None:
        """The error of the last attempt to connect or to log in; None if it succeeded."""
        return self.last_error if self.setup_failures or self.refused else None

    def view(self, node: NodeId) -> ConnectionView:
        """The state as it is now."""
        connection = self.connection
        return ConnectionView(
            node,
            self.peer,
            self.is_ready,
            connection is not None and connection.phase is Phase.CONNECTING,
            self.since,
            self.failing_since,
            self.not_before,
            self.refused,
            self.last_error,
            0.0 if self.exchange is None else self.exchange.throttled_until,
            self.in_flight_count,
            self.reachable_since,
        )

    def setup_timeout(self, settings: ClientSettings, random: Random) -> float:
        """Seconds for the next attempt to connect and to log in; they grow with each failure."""
        first, longest = settings.setup_timeout, settings.setup_timeout_max
        return ExponentialBackoff(first, longest, random).delay(self.setup_failures + 1)

    def tries(self, connection: Connection, now: float) -> None:
        """An attempt to connect begins."""
        self.connection = connection
        self.peer = connection.node
        if self.failing_since is None:
            self.since = now

    def opened(self, now: float) -> None:
        """The connection was established, and the login succeeded."""
        assert self.connection is not None
        self.exchange = self.connection.exchange
        self.failures = self.setup_failures = 0
        self.refused = False
        self.last_error = None
        if self.failing_since is not None or self.reachable_since is None:
            self.reachable_since = now
        self.since, self.failing_since = now, None

    def ended(
        self,
        reason: ProducerError,
        settings: ClientSettings,
        now: float,
        random: Random,
        *,
        refusals: int,
        at_once: bool = False,
    ) -> None:
        """The connection ended. The backoff before the next one grows with each failure.

        ``at_once``: the next one may begin without a backoff.

        The seconds in which the connection was unused count as a part of the backoff, but before a
        refusal it was used for the login. The end of an idle connection is no failure, and neither
        is that of one that was left.

        ``refusals``: :attr:`RefusedLogins.in_a_row`.
        """
        connection = self.connection
        assert connection is not None
        was_ready = connection.phase.was_ready
        refused = is_refusal(reason)
        unused = 0.0 if refused else connection.timeouts.unused_for(now)
        self.setup_failures += not was_ready
        self.connection = self.exchange = None
        if was_ready:
            self.since = now
        if connection.phase is Phase.LEFT or unused >= settings.connection.max_idle:
            return
        if self.failing_since is None and (refused or not was_ready):
            self.failing_since = self.since
        if not connection.hung_up_at:  # else the next one asks with a lower version
            self.last_error = reason
        self.failures += 1
        first, longest = settings.reconnect_backoff, settings.reconnect_backoff_max
        failures = self.failures
        if refused:
            self.refused, failures = True, refusals
        if self.refused:
            first = max(first, settings.login_backoff)
            longest = max(longest, settings.login_backoff_max)
        backoff = ExponentialBackoff(first, longest, random).delay(failures)
        self.not_before = now if at_once else now + max(backoff - unused, 0.0)


def is_refusal(reason: ProducerError) -> bool:
    """True if a retry can't succeed before the login or a certificate changes."""
    return isinstance(reason, REFUSALS)


class RefusedLogins:
    """The refused logins of a client, and the rule for them.

    - A login is refused if it ends with one of :data:`REFUSALS`, such as an
      :class:`AuthenticationError`. ``login.py`` makes the error of a broker's code,
      ``auth/tls_errors.py`` that of a handshake, and ``auth/providers.py`` that of a provider of
      credentials.
    - It is tried again: passwords and certificates change. The backoff before it is
      ``login_backoff``, doubled with each refusal in a row at any broker, for brokers share their
      accounts (:meth:`NodeConnectionState.ended`).
    - Callers and records that wait for metadata, or for any broker, fail with the refusal once no
      other broker can let the client in (:meth:`error`). Records in batches wait for the next
      login.
    - Requests in flight when a renewal is refused fail with a :class:`BrokerConnectionError`:
      another broker may take them.
    """

    def __init__(self) -> None:
        self.nodes: set[NodeId] = set()
        """The brokers whose last login was refused."""
        self.in_a_row: int = 0
        """The refused logins at all brokers, since one let the client in."""

    def refused(self, node: NodeId) -> None:
        """``node`` has refused a login."""
        self.nodes.add(node)
        self.in_a_row += 1

    def let_in(self, node: NodeId) -> None:
        """``node`` has accepted a login."""
        self.nodes.discard(node)
        self.in_a_row = 0

    def forgotten(self, node: NodeId) -> None:
        """``node`` has left the cluster."""
        self.nodes.discard(node)

    def error(
        self, nodes: Iterable[Peer], states: Mapping[NodeId, NodeConnectionState]
    ) -> ProducerError | None:
        """The error of a refused login, if no broker is reached and each of ``nodes`` was tried."""
        tried = [states.get(node.id) for node in nodes]
        errors = [state and state.setup_error for state in tried]
        if None in errors or any(state.is_ready for state in states.values()):
            return None
        return next((error for error in errors if error and is_refusal(error)), None)


_LEVEL_EVERY: Final = 0.5
"""Seconds. To ask the logger for each request would take longer than to count it."""


class ConnectionLog:
    """Writes the lines of one client."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._logged_in = False
        self._failing_servers: set[NodeId] = set()
        """The bootstrap servers that have failed since a connection was opened."""
        self.debugs = False
        """True if lines at DEBUG are written, as of the last :meth:`read_level`."""
        self.level_due = 0.0
        """The clock's time at which :meth:`read_level` is due: an application may change it."""

    def read_level(self, now: float) -> None:
        """See whether the application wants lines at DEBUG."""
        self.debugs, self.level_due = logger.debugs, now + _LEVEL_EVERY

    def opened(self, connection: Connection, state: NodeConnectionState, now: float) -> None:
        """``connection`` takes requests; ``state``: that of the broker before it opened."""
        node = connection.node
        for each in (node.id, *self._failing_servers):  # once one responds, no other is tried
            self.forgotten(each)
        self._failing_servers.clear()
        if state.setup_error is not None and state.failing_since is not None:
            logger.repeated(
                logging.INFO,
                ("again", node.id),
                "Connected to %s again, after %s in %s",
                node,
                counted(state.failures, "failed attempt"),
                duration(now - state.failing_since),
                **_place(node),
            )
        else:
            logger.debug("Connected to %s", node, **_place(node))
        if self._settings.authenticates and not self._logged_in:
            self._logged_in = True
            mechanism = self._settings.mechanism
            how = [] if self._settings.socket.tls is None else ["TLS"]
            how += [] if mechanism is None else [mechanism.name]
            logger.info("Logged in to %s with %s", node, " and ".join(how), **_place(node))

    def renewed(self, connection: Connection) -> None:
        """The connection has logged in once more."""
        logger.debug("Logged in to %s again", connection.node, **_place(connection.node))

    def ended(self, connection: Connection, reason: ProducerError) -> None:
        """The connection was lost, or was never established."""
        node, lost = connection.node, len(connection.in_flight)
        if is_refusal(reason) or not connection.phase.was_ready:
            if isinstance(node, BootstrapServer):
                self._failing_servers.add(node.id)
            logger.repeated(
                logging.WARNING,
                ("failed", node.id),
                "Connection to %s failed: %s",
                node,
                _without_name(reason, node),
                error=reason,
                **_place(node),
            )
            return
        level = logging.INFO if lost else logging.DEBUG
        logger.repeated(
            logging.WARNING if connection.asks_for_login else level,
            ("ended", node.id),
            "Connection to %s ended with %s in flight: %s",
            node,
            counted(lost, "request"),
            _without_name(reason, node),
            error=reason,
            **_place(node),
        )

    def forgotten(self, node: NodeId) -> None:
        """Failures of ``node`` are over: it is connected, or is not tried any more."""
        logger.over(logging.WARNING, ("failed", node))

    def throttled(self, connection: Connection, pause: float) -> None:
        """The broker asks for a pause of so many seconds."""
        logger.repeated(
            logging.WARNING,
            ("throttled", connection.node.id),
            "%s throttles this client for %s, because of a quota",
            connection.node,
            duration(pause),
            throttle_ms=round(pause * 1000),
            **_place(connection.node),
        )

    def anomaly(self, connection: Connection, what: str) -> None:
        """A response has a harmless anomaly, for the first time."""
        logger.debug("%s: %s; they are ignored", connection.node, what, **_place(connection.node))

    def sent(self, connection: Connection, api: Api, size: int) -> None:
        """A request of ``size`` bytes was written."""
        kind = request_schema(api).name
        logger.debug("%s to %s: %d bytes", kind, connection.node, size, **_place(connection.node))

    def answered(self, connection: Connection, request: InFlightRequest) -> None:
        """A response has come."""
        logger.debug(
            "%s answered by %s after %.1f ms",
            request.form.label,
            connection.node,
            request.latency * 1000,
            **_place(connection.node),
        )


def _without_name(reason: ProducerError, node: Peer) -> str:
    return str(reason).removeprefix(f"{node}: ").removeprefix(f"{node} ")


def _place(node: Peer) -> dict[str, Any]:
    return {"node": node.id, "address": node.address}
