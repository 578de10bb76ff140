# cython: language_level=3, annotation_typing=False, binding=False, nonecheck=True
"""Connections by the clock: a request is overdue, a connection is idle, or is slow to open."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from aioproducer.engine.network.connection import Connection, ConnectionState
from aioproducer.engine.network.in_flight import InFlightRequest
from aioproducer.errors import BrokerConnectionError, RequestTimeoutError
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.foundation.wording import duration


class ConnectionTimeouts:
    """``request_timeout_ms`` and ``connections_max_idle_ms`` of all connections, in seconds."""

    def __init__(self, request_timeout: float, max_idle: float, clock: RunningClock) -> None:
        self.request_timeout = request_timeout
        self.max_idle = max_idle
        self.clock = clock
        self.look_at = inf
        """No connection is overdue or idle before this moment; often none is at it either."""
        self.shortest = min(request_timeout, max_idle)
        """Seconds after which a request or an idle connection is late at the earliest."""
        self.patience = min(tuning.SLOW_BROKER, request_timeout / 2)
        """Seconds after which another broker is asked as well, if any can answer."""
        self._lost = 0.0
        """The time that the clock had left out at the last look; connections age in it as well."""

    def connection_tried(self, now: float) -> None:
        """An attempt to connect began at ``now``."""
        self.look_at = min(self.look_at, now + tuning.SLOW_BROKER)

    def connection_opened(self, now: float) -> None:
        """A connection takes requests from ``now`` on."""
        self.look_at = min(self.look_at, now + self.max_idle)

    def look_again(self, moment: float) -> None:
        """Look at the connections at ``moment`` at the latest."""
        self.look_at = min(self.look_at, moment)

    def request_sent(self, now: float) -> None:
        """A request was sent at ``now``, and :attr:`look_at` is too late for it."""
        self.look_at = now + self.shortest

    def next(self) -> float | None:
        """The moment to look at the connections; None: there are none."""
        if self.look_at == inf:
            return None
        return self.look_at if self.clock.lost == self._lost else -inf

    def poll(self, connections: Iterable[Connection], now: float) -> float | None:
        """End the connections that are overdue or idle; the moment to look again, if any."""
        due = self.next()
        if due is None or now < due:
            return due
        self._lost = self.clock.lost
        self.look_at = min((self._check(each, now) for each in connections), default=inf)
        return self.next()

    def _check(self, connection: Connection, now: float) -> float:
        """The next moment to look at ``connection``; ends it if it is overdue or idle."""
        if connection.state is ConnectionState.CONNECTING:
            return inf if self.is_slow(connection, now) else self._slow_at(connection)
        if connection.state is not ConnectionState.READY:
            return inf
        overdue = connection.in_flight.overdue(now)
        if overdue is not None:
            look_again = connection.passes_until(overdue, now)
            if look_again is not None:
                return look_again
            connection.abort(_timed_out(connection, overdue, now))
            return inf
        deadline = connection.in_flight.next_deadline()
        if deadline is not None:
            return self.end_idle(connection, now) if self._is_lost(connection, now) else deadline
        left = self.max_idle - self.idle_for(connection, now)
        return now + left if left > 0 else self.end_idle(connection, now)

    def _is_lost(self, connection: Connection, now: float) -> bool:
        """True if a response will not come any more, although the request is not overdue.

        The process was stopped for so long that brokers and firewalls have given up the connection.
        """
        longest = max(self.max_idle, self.request_timeout)
        return not connection.in_flight.overdue(now) and self.idle_for(connection, now) >= longest

    def idle_for(self, connection: Connection, now: float) -> float:
        """Seconds since the last request or response, of which a stop is a part."""
        return now + self.clock.lost - connection.last_used

    def unused_for(self, connection: Connection, now: float) -> float:
        """Seconds since the last use of a connection that has ended; 0 if it was in use."""
        if not connection.is_needed:
            return inf
        in_use = connection.in_flight and not self._is_lost(connection, now)
        return 0.0 if in_use or not connection.was_ready else self.idle_for(connection, now)

    def is_slow(self, connection: Connection, now: float) -> bool:
        """True if the set-up of ``connection`` has taken long, so another broker may be faster."""
        return now >= self._slow_at(connection)

    def _slow_at(self, connection: Connection) -> float:
        return (
            connection.last_used - self.clock.lost + tuning.SLOW_BROKER
        )  # it was not used since it began

    def is_left(self, connection: Connection, now: float) -> bool:
        """True if ``connection`` waits for nothing, and is idle for too long to be used.

        The broker may have closed it, or a firewall forgotten it, and nothing would say so.
        """
        return (
            connection.state is ConnectionState.READY
            and not connection.in_flight
            and self.idle_for(connection, now) >= self.max_idle
        )

    def end_idle(self, connection: Connection, now: float) -> float:
        """End a connection that is idle for too long; it needs no look any more."""
        seconds = duration(self.idle_for(connection, now))
        what = f"no request used the connection for {seconds}"
        if connection.in_flight:
            what = f"no response came for {seconds}, in which this process was stopped"
        connection.abort(
            BrokerConnectionError(f"{connection.node}: {what} (connections_max_idle_ms)")
        )
        return inf


def _timed_out(connection: Connection, request: InFlightRequest, now: float) -> RequestTimeoutError:
    failed_to = "answer" if request.answered else "read"
    took, limit = now - request.sent, request.deadline - request.sent
    passed = f" is {duration(limit)}, and bytes passed for longer" if took > 1.5 * limit else ""
    return RequestTimeoutError(
        f"{connection.node} did not {failed_to} a {request.form.label} request within "
        f"{duration(took)} (request_timeout_ms{passed}), so its connection was closed"
    )
