"""One broker as the client sees it: its connection, and the wait before the next one.

Source: Kafka's ``ClusterConnectionStates``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.errors import (
    AuthenticationError,
    ProducerError,
    UsageError,
)
from aioproducer.network.apis import Api
from aioproducer.network.connection import Connection, ConnectionSettings, ConnectionState

_FINAL: Final = (AuthenticationError, UsageError)
"""The errors that end a login for good: a broker's refusal, or something wrong here, such as a
certificate's file, or an extra that is not installed."""

LOGIN_BACKOFF: Final = 1.0
LOGIN_BACKOFF_MAX: Final = 60.0
"""Seconds to wait after a login that a broker refused, doubled each time: directories lock the
accounts of those who try again and again."""


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class NodeState:
    """One broker: its connection, and what hinders a new one or the next request."""

    connection: Connection | None = None
    failures: int = 0
    setup_failures: int = 0
    not_before: float = 0.0
    refused: bool = False
    """Its last login was refused."""
    last_error: ProducerError | None = None
    inexpressible: set[Api] = field(default_factory=set)
    """Requests that it has no version for, by what it told the connection before."""
    oddities: set[str] = field(default_factory=set)
    """The oddities that were logged."""

    @property
    def is_ready(self) -> bool:
        """True if its connection takes requests."""
        connection = self.connection
        return connection is not None and connection.state is ConnectionState.READY

    @property
    def setup_error(self) -> ProducerError | None:
        """The reason why the broker could not be reached, or refused the login, when it was tried
        last; None after a connection that was good and ended."""
        return self.last_error if self.setup_failures or self.refused else None

    def opened(self) -> None:
        """The broker let the producer in."""
        self.failures = self.setup_failures = 0
        self.refused = False
        self.last_error = None

    def ended(
        self,
        reason: ProducerError,
        settings: ClientSettings,
        now: float,
        random: Random,
        *,
        refusals: int,
    ) -> None:
        """The connection is gone; the next one waits, longer after each failure.

        ``refusals``: refused logins in a row, of all brokers. They have the same accounts, so the
        wait grows with the refusals of any.
        """
        assert self.connection is not None
        self.setup_failures += not self.connection.was_ready
        self.connection = None
        self.last_error = reason
        self.failures += 1
        first, longest = settings.reconnect_backoff, settings.reconnect_backoff_max
        failures = self.failures
        if is_final(reason):
            self.refused, failures = True, refusals
        if self.refused:
            first, longest = max(first, LOGIN_BACKOFF), max(longest, LOGIN_BACKOFF_MAX)
        backoff = ExponentialBackoff(first, longest, random)
        self.not_before = now + backoff.delay(failures)


def is_final(reason: ProducerError) -> bool:
    """True if another try soon would end alike: the login or a certificate has to change first."""
    return isinstance(reason, _FINAL)
