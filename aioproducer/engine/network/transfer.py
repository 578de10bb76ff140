"""The bytes of a connection on their way: round trips, large requests and responses that are late.

The system's TCP knows what has passed; only Linux says it (``struct tcp_info``).
:class:`RoundTrip` asks for the round-trip time. :class:`Transfer` decides which requests may take
longer than ``request_timeout_ms``, and gives them time while their bytes still pass.
"""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import InFlightRequest
from aioproducer.engine.protocol import Api
from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import RunningClock

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
        self.stale_at = -math.inf
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


class Transfer:
    """A look at a connection whose first request is late: do its bytes still pass?

    A request that ended while its bytes were on their way would be sent again, over the same narrow
    path, and might never arrive. So it has time until no byte has passed for ``timeout`` seconds,
    and :data:`MOST_TIMEOUTS` times as long at most. If no byte passes when it gets late, it ends.

    ``connected``: the socket, as asyncio or uvloop gives it. Where the system does not say what
    passes, no request gets more time.
    """

    __slots__ = ("_connected", "_look_at", "_passed", "_passed_at", "_seen_at", "_timeout")

    def __init__(self, connected: Any, timeout: float) -> None:
        self._connected = connected
        self._timeout = timeout
        self._passed = 0
        self._look_at = -math.inf
        """The time of the next look, if the request is still late by then."""
        self._passed_at: float | None = None
        """The time at which bytes were seen to pass; None: it was not looked at before."""
        self._seen_at = -math.inf
        """The time of the last look that gave a request more time."""

    def passes_until(self, late: InFlightRequest, exchange: Exchange, now: float) -> float | None:
        """When to look again at a late request of ``exchange``; None: it ends.

        Only a request that no other broker could answer gets more time, and only while somebody
        waits for it. A broker that sends its metadata byte by byte must not hold up the others.
        """
        if exchange.is_reading:  # the response has come
            return now + self._timeout / _LOOKS
        if late.form.api not in _AT_ONE_BROKER or not late.request.is_awaited:
            return self.look_behind(now)
        return self.look(late.sent, now, receives=exchange.is_amid_response)

    def time_after_requests(self, exchange: Exchange, clock: RunningClock) -> Callable[[], float]:
        """Returns a function for a login that begins now, after the requests of ``exchange``.

        It is called when the time of the login is over, and returns the seconds to add; 0: none.
        That time begins once the requests have passed. If they do not, :class:`ConnectionTimeouts`
        ends the connection.
        """
        began, used = clock(), exchange.last_used

        def more() -> float:
            nonlocal used
            now, in_flight = clock(), exchange.in_flight
            if in_flight and in_flight[0].request is not None:
                return self._timeout / _LOOKS
            if used != exchange.last_used:  # a response has come meanwhile
                used = exchange.last_used
                return self._timeout
            look_again = self.look(began, now, receives=False)  # after requests with acks=0
            return 0.0 if look_again is None else look_again - now

        return more

    def look(self, sent: float, now: float, *, receives: bool) -> float | None:
        """When to look again at a late request that was ``sent``; None: it ends.

        ``receives``: a part of a response has come.
        """
        if now < self._look_at:
            return self._look_at
        look_again = self._look(sent, now, receives=receives)
        if look_again is not None:
            self._seen_at = now
        return look_again

    def look_behind(self, now: float) -> float | None:
        """When to look again at a late request that gets no more time itself; None: it ends.

        If it was sent after one that got more time, its own time begins when that one has passed.
        """
        ends_at = self._seen_at + self._timeout
        return ends_at if now < ends_at else None

    def _look(self, sent: float, now: float, *, receives: bool) -> float | None:
        found = traffic(self._connected)
        if found is None or now >= sent + MOST_TIMEOUTS * self._timeout:
            return None
        pause = max(
            self._timeout / tuning.TRANSFER_LOOKS, tuning.TRANSFER_ROUND_TRIPS * found.round_trip
        )
        before, self._passed = self._passed, found.passed
        goes_on = now < self._look_at + pause
        self._look_at = now + pause
        if not goes_on:
            self._passed_at = None
            passes = (found.is_sending or receives) and found.silence < pause
            return self._look_at if passes else None
        if found.passed > before:
            self._passed_at = now
        elif self._passed_at is None or now >= self._passed_at + self._timeout:
            return None
        return self._look_at
