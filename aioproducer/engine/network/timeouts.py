"""The timeouts of a connection: a request is late, the connection is idle or slow.

``request_timeout_ms`` begins when a request is written. The requests of a connection are answered
in their order, so the first one is late first. Then the connection ends, and each of its requests
gets a :class:`RequestTimeoutError`; :mod:`aioproducer.engine.sender.outcomes` says what becomes of
batches. Progress prolongs the time of a request with records that somebody still waits for: bytes
that pass, as the system's TCP knows them (``struct tcp_info``, which only Linux says).

:class:`ConnectionTimeouts` decides for one connection, and :meth:`NetworkClient.poll` ends those
that are late. What has arrived is read before (:func:`sockets_read`). The steps of a set-up and a
login have the same bound (:meth:`Connection._bounded`); a renewed login has it after the requests
before it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from math import inf
from typing import Any, Final, NamedTuple

from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import InFlightRequest
from aioproducer.engine.protocol import Api
from aioproducer.errors import BrokerConnectionError, ProducerError, RequestTimeoutError
from aioproducer.foundation import tuning
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.model import Peer

_SIZE: Final = 148
_UNACKED_AT: Final = 24
"""Segments that were sent and not acknowledged."""
_LAST_DATA_AT: Final = 52
_LAST_ACK_AT: Final = 56
"""Milliseconds since data or an acknowledgement came."""
_RTT_AT: Final = 68
"""A smoothed round-trip time in microseconds."""
_ACKED_AT: Final = 120
_RECEIVED_AT: Final = 128
"""Bytes, of 8 bytes each."""
_NOT_SENT_AT: Final = 144
"""Bytes that were written and not sent."""


class RoundTrip:
    """The round-trip time of one connection, which the system is asked for at intervals.

    ``connected``: the socket, as asyncio or uvloop gives it.
    """

    __slots__ = ("_connected", "seconds", "stale_at")

    def __init__(self, connected: Any) -> None:
        self._connected = connected
        self.stale_at = -inf
        """The clock's time at which :meth:`ask` is due."""
        self.seconds: float | None = None
        """The time as of the last question; see :func:`round_trip`."""

    def ask(self, now: float) -> None:
        """Ask the system, at ``now``."""
        self.stale_at = now + tuning.ROUND_TRIP_FRESH_FOR
        self.seconds = round_trip(self._connected)


class Traffic(NamedTuple):
    """The bytes of a connection."""

    passed: int
    """Bytes that the other side has acknowledged, and those that came from it."""
    is_sending: bool
    """Whether written bytes are not acknowledged yet."""
    silence: float
    """Seconds since anything came from the other side."""
    round_trip: float
    """Seconds of a round trip; 0: it was not measured yet."""


def round_trip(connected: Any) -> float | None:
    """Seconds of a round trip on a socket; None: the system does not know."""
    info = _tcp_info(connected)
    microseconds = 0 if info is None else _number(info, _RTT_AT)
    return microseconds / 1e6 if microseconds else None


def traffic(connected: Any) -> Traffic | None:
    """The traffic of a socket; None: the system does not know."""
    info = _tcp_info(connected)
    if info is None or len(info) < _SIZE:
        return None
    return Traffic(
        _number(info, _ACKED_AT, 8) + _number(info, _RECEIVED_AT, 8),
        bool(_number(info, _UNACKED_AT) or _number(info, _NOT_SENT_AT)),
        min(_number(info, _LAST_DATA_AT), _number(info, _LAST_ACK_AT)) / 1e3,
        _number(info, _RTT_AT) / 1e6,
    )


def _tcp_info(connected: Any) -> bytes | None:
    if sys.platform != "linux" or connected is None:
        return None
    try:
        info: bytes = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except (OSError, ValueError, AttributeError):
        return None  # closed (uvloop raises ValueError), no TCP, or another event loop's own kind
    return info


def _number(info: bytes, place: int, size: int = 4) -> int:
    return int.from_bytes(info[place : place + size], sys.byteorder)


MOST_TIMEOUTS: Final = 4
"""A request ends after so many times ``request_timeout_ms``, whatever passes."""
_LOOKS: Final = 8
"""Looks per ``request_timeout_ms`` at a response read in steps, or at requests before a login."""
_AT_ONE_BROKER: Final = (Api.PRODUCE, Api.FETCH)
"""The requests with records, which only the leader of their partitions takes."""


class ConnectionTimeouts:
    """The timeouts of one connection, in seconds. It decides, and the client ends the connection.

    A late request that ended while its bytes were on their way would be sent again, over the same
    narrow path, and might never arrive. So it has time until no byte has passed for
    ``request_timeout`` seconds, and :data:`MOST_TIMEOUTS` times as long at most. If no byte passes
    when it gets late, it ends.
    """

    def __init__(
        self, node: Peer, request_timeout: float, max_idle: float, clock: RunningClock
    ) -> None:
        self._node = node
        self._request_timeout: float = request_timeout
        self._max_idle: float = max_idle
        self._clock: RunningClock = clock
        self.began: float = clock() + clock.lost
        """The time of its start, with the time in which the process did not run."""
        self._exchange: Exchange | None = None
        """None until the connection takes requests."""
        self._connected: Any = None
        self._passed = 0
        self._next_look = -inf
        """The time of the next look at what passes, if the request is still late by then."""
        self._passed_at: float | None = None
        """The time at which bytes were seen to pass; None: it was not looked at before."""
        self._seen_at = -inf
        """The time of the last look that gave a request more time."""

    def opened(self, exchange: Exchange, connected: Any) -> None:
        """The connection takes requests.

        ``connected``: the socket, as asyncio or uvloop gives it. Where the system does not say what
        passes, no request gets more time.
        """
        self._exchange = exchange
        self._connected = connected

    def look(self, now: float) -> float | ProducerError:
        """When to look again at the connection, or the reason to end it."""
        exchange = self._exchange
        if exchange is None:
            return inf if self.is_slow(now) else self._slow_at()
        if not exchange.in_flight:
            left = self._max_idle - self.idle_for(now)
            return now + left if left > 0 else self.why_idle(now)
        first = exchange.in_flight[0]
        late_at = self._late_at(first)
        if late_at <= now:
            look_again = self.passes_until(first, now)
            return self._timed_out(first, now) if look_again is None else look_again
        return self.why_idle(now) if self._is_lost(now) else late_at

    # --- idle and slow connections ---------------------------------------------------------

    def idle_for(self, now: float) -> float:
        """Seconds since the last request or response, of which a stop is a part."""
        used = self.began if self._exchange is None else self._exchange.last_used
        return now + self._clock.lost - used

    def unused_for(self, now: float) -> float:
        """Seconds since the last use of a connection that has ended; 0 if it was in use."""
        exchange = self._exchange
        in_use = exchange is None or (exchange.in_flight and not self._is_lost(now))
        return 0.0 if in_use else self.idle_for(now)

    def is_left(self, now: float) -> bool:
        """True if the connection waits for nothing, and is idle for too long to be used.

        The broker may have closed it, or a firewall forgotten it, and nothing would say so.
        """
        exchange = self._exchange
        is_free = exchange is not None and not exchange.in_flight
        return is_free and self.idle_for(now) >= self._max_idle

    def _is_lost(self, now: float) -> bool:
        """True if the response will not come any more, although the request is not late.

        The process was stopped for so long that brokers and firewalls have given up the connection.
        """
        assert self._exchange is not None, "it has sent a request"
        longest = max(self._max_idle, self._request_timeout)
        return self.idle_for(now) >= longest and self._late_at(self._exchange.in_flight[0]) > now

    def why_idle(self, now: float) -> ProducerError:
        """The reason to end a connection that is idle for too long."""
        seconds = duration(self.idle_for(now))
        what = f"no request used the connection for {seconds}"
        if self._exchange is not None and self._exchange.in_flight:
            what = f"no response came for {seconds}, in which this process was stopped"
        return BrokerConnectionError(f"{self._node}: {what} (connections_max_idle_ms)")

    def is_slow(self, now: float) -> bool:
        """True if the set-up has taken long, so another broker may be faster."""
        return now >= self._slow_at()

    def _slow_at(self) -> float:
        return self.began - self._clock.lost + tuning.SLOW_BROKER

    # --- late requests ---------------------------------------------------------------------

    def _late_at(self, request: InFlightRequest) -> float:
        """The end of a request's time; the connection's own requests have their own bound."""
        return inf if request.request is None else request.sent + self._request_timeout

    def _timed_out(self, request: InFlightRequest, now: float) -> RequestTimeoutError:
        failed_to = "answer" if request.answered else "read"
        took, limit = now - request.sent, self._request_timeout
        passed = f" is {duration(limit)}, and bytes passed for longer" if took > 1.5 * limit else ""
        return RequestTimeoutError(
            f"{self._node} did not {failed_to} a {request.form.label} request within "
            f"{duration(took)} (request_timeout_ms{passed}), so its connection was closed"
        )

    def passes_until(self, late: InFlightRequest, now: float) -> float | None:
        """When to look again at a late request; None: it ends.

        Only a request that no other broker could answer gets more time, and only while somebody
        waits for it. A broker that sends its metadata byte by byte must not hold up the others.
        """
        exchange = self._exchange
        assert exchange is not None, "it has sent a request"
        if exchange.is_reading:  # the response has come
            return now + self._request_timeout / _LOOKS
        if late.form.api not in _AT_ONE_BROKER or not late.request.is_awaited:
            return self.look_behind(now)
        return self.look_at_bytes(late.sent, now, receives=exchange.is_amid_response)

    def time_after_requests(self) -> Callable[[], float]:
        """Returns a function for a login that begins now, after the requests in flight.

        It is called when the time of the login is over, and returns the seconds to add; 0: none.
        That time begins once the requests have passed. If they do not, they end the connection.
        """
        exchange, clock = self._exchange, self._clock
        assert exchange is not None, "a login is renewed"
        began, used = clock(), exchange.last_used

        def more() -> float:
            nonlocal used
            now, in_flight = clock(), exchange.in_flight
            if in_flight and in_flight[0].request is not None:
                return self._request_timeout / _LOOKS
            if used != exchange.last_used:  # a response has come meanwhile
                used = exchange.last_used
                return self._request_timeout
            look_again = self.look_at_bytes(began, now, receives=False)  # after acks=0
            return 0.0 if look_again is None else look_again - now

        return more

    def look_at_bytes(self, sent: float, now: float, *, receives: bool) -> float | None:
        """When to look again at a late request that was ``sent``; None: it ends.

        ``receives``: a part of a response has come.
        """
        if now < self._next_look:
            return self._next_look
        look_again = self._look_at_bytes(sent, now, receives=receives)
        if look_again is not None:
            self._seen_at = now
        return look_again

    def look_behind(self, now: float) -> float | None:
        """When to look again at a late request that gets no more time itself; None: it ends.

        If it was sent after one that got more time, its own time begins when that one has passed.
        """
        ends_at = self._seen_at + self._request_timeout
        return ends_at if now < ends_at else None

    def _look_at_bytes(self, sent: float, now: float, *, receives: bool) -> float | None:
        found, timeout = traffic(self._connected), self._request_timeout
        if found is None or now >= sent + MOST_TIMEOUTS * timeout:
            return None
        pause = max(timeout / tuning.TRANSFER_LOOKS, tuning.TRANSFER_ROUND_TRIPS * found.round_trip)
        before, self._passed = self._passed, found.passed
        goes_on = now < self._next_look + pause
        self._next_look = now + pause
        if not goes_on:
            self._passed_at = None
            passes = (found.is_sending or receives) and found.silence < pause
            return self._next_look if passes else None
        if found.passed > before:
            self._passed_at = now
        elif self._passed_at is None or now >= self._passed_at + timeout:
            return None
        return self._next_look
