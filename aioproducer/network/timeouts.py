"""The ends of connections by the clock: a request that is overdue, a connection that is idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aioproducer.errors import BrokerConnectionError, RequestTimeoutError
from aioproducer.network.connection import Connection, ConnectionState
from aioproducer.network.in_flight import InFlightRequest
from aioproducer.wording import duration

_NEVER: Final = float("inf")


@dataclass(slots=True)
class ConnectionTimeouts:
    """``request_timeout_ms`` and ``connections_max_idle_ms`` of all connections, in seconds."""

    request_timeout: float
    max_idle: float
    _next: float = _NEVER
    """No connection is overdue or idle before this moment; often none is at it either."""

    def connection_opened(self, now: float) -> None:
        """A connection takes requests from ``now`` on."""
        self._next = min(self._next, now + self.max_idle)

    def request_sent(self, now: float) -> None:
        """A request was sent at ``now``."""
        self._next = min(self._next, now + self.request_timeout, now + self.max_idle)

    def poll(self, connections: Iterable[Connection], now: float) -> float | None:
        """End the connections that are overdue or idle; the moment to look again, if any."""
        if now >= self._next:
            self._next = min((self._check(each, now) for each in connections), default=_NEVER)
        return None if self._next == _NEVER else self._next

    def _check(self, connection: Connection, now: float) -> float:
        """The moment at which ``connection`` is overdue or idle; ends it if that is now."""
        if connection.state is not ConnectionState.READY:
            return _NEVER
        overdue = connection.in_flight.overdue(now)
        if overdue is not None:
            connection.abort(_timed_out(connection, overdue, now))
            return _NEVER
        idle_at = connection.last_used + self.max_idle
        deadline = connection.in_flight.next_deadline()
        if deadline is None and idle_at <= now:
            connection.abort(
                BrokerConnectionError(
                    f"{connection.node}: no request used the connection for "
                    f"{duration(now - connection.last_used)} (connections_max_idle_ms)"
                )
            )
            return _NEVER
        return idle_at if deadline is None else deadline


def _timed_out(connection: Connection, request: InFlightRequest, now: float) -> RequestTimeoutError:
    failed_to = "answer" if request.response else "read"
    return RequestTimeoutError(
        f"{connection.node} did not {failed_to} a {request.label} request within "
        f"{duration(now - request.sent)} (request_timeout_ms), so its connection was closed"
    )
