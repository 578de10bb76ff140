# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""The state of each broker at the client: its connection, failures, and reconnect backoff.

Source: Kafka's ``ClusterConnectionStates``.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from aioproducer.engine.network.connection import Connection, ConnectionSettings, ConnectionState
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.protocol import Api
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    UsageError,
    Written,
)
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.model import NodeId, Peer

_FINAL: Final = (AuthenticationError, UsageError)
"""Errors that no retry can mend: a broker's refusal, an unreadable certificate's file, an extra
that is not installed."""

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
    request_timeout: float
    setup_timeout: float
    setup_timeout_max: float
    reconnect_backoff: float
    reconnect_backoff_max: float
    max_idle: float
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
        """True if its connection takes requests."""
        connection = self.connection
        return connection is not None and connection.state is ConnectionState.READY

    @property
    def in_flight(self) -> int:
        """Requests without a response; any thread may ask."""
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
            connection is not None and connection.state is ConnectionState.CONNECTING,
            self.since,
            self.failing_since,
            self.not_before,
            self.refused,
            self.last_error,
            0.0 if connection is None else connection.throttled_until,
            self.in_flight,
            self.reachable_since,
        )

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
        unused: float = 0.0,
    ) -> None:
        """The connection ended. The backoff before the next one grows with each failure.

        The seconds in which the connection was ``unused`` count as a part of the backoff. The end
        of an idle connection is no failure.

        ``refusals``: refused logins in a row at all brokers. Brokers share their accounts, so the
        backoff grows with refusals at any of them.
        """
        assert self.connection is not None
        was_ready = self.connection.was_ready
        self.setup_failures += not was_ready
        self.connection = self.exchange = None
        if was_ready:
            self.since = now
        if unused >= settings.max_idle:
            return
        if self.failing_since is None and (is_final(reason) or not was_ready):
            self.failing_since = self.since
        self.last_error = reason
        self.failures += 1
        first, longest = settings.reconnect_backoff, settings.reconnect_backoff_max
        failures = self.failures
        if is_final(reason):
            self.refused, failures = True, refusals
        if self.refused:
            first = max(first, settings.login_backoff)
            longest = max(longest, settings.login_backoff_max)
        backoff = ExponentialBackoff(first, longest, random)
        self.not_before = now + max(backoff.delay(failures) - unused, 0.0)


def is_final(reason: ProducerError) -> bool:
    """True if a retry can't succeed before the login or a certificate changes."""
    return isinstance(reason, _FINAL)
