"""The round-trip time of a connection, as the system's TCP has measured it."""

from __future__ import annotations

import math
import socket
import sys
from typing import Any, Final

__all__ = ["FRESH_FOR", "RoundTrip", "round_trip"]

_TCP_INFO_SIZE: Final = 104
_RTT_AT: Final = 68
"""The place of ``tcpi_rtt`` in Linux's ``struct tcp_info``: a smoothed time in microseconds."""

FRESH_FOR: Final = 0.1
"""Seconds. The system's time is an average that moves slowly, and asking takes a system call."""


class RoundTrip:
    """The round-trip time of one connection, asked of the system every :data:`FRESH_FOR` seconds.

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
        self.stale_at = now + FRESH_FOR
        self.seconds = round_trip(self._connected)


def round_trip(connected: Any) -> float | None:
    """Seconds of a round trip on a socket; None: only Linux reports it, and only for TCP."""
    if sys.platform != "linux" or connected is None:
        return None
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    except (OSError, ValueError, AttributeError):
        return None  # closed (uvloop raises ValueError), no TCP, or another event loop's own kind
    microseconds = int.from_bytes(info[_RTT_AT : _RTT_AT + 4], sys.byteorder)
    return microseconds / 1e6 if microseconds else None
