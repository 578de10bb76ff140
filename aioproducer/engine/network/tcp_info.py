"""What the system's TCP knows of a connection. Only Linux says it (``struct tcp_info``)."""

from __future__ import annotations

import math
import socket
import sys
from typing import Any, Final, NamedTuple

from aioproducer.foundation import tuning

__all__ = ["RoundTrip", "Traffic", "round_trip", "traffic"]

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
