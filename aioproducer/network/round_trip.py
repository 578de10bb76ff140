"""The round-trip time of a connection, as the system's TCP has measured it."""

from __future__ import annotations

import socket
import sys
from typing import Any, Final

__all__ = ["round_trip"]

_TCP_INFO_SIZE: Final = 104
_RTT_AT: Final = 68
"""The place of ``tcpi_rtt`` in Linux's ``struct tcp_info``: a smoothed time in microseconds."""


def round_trip(connected: Any) -> float | None:
    """Seconds of a round trip on a socket; None: only Linux tells it, and on TCP alone."""
    if sys.platform != "linux" or connected is None:
        return None
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    except (OSError, ValueError, AttributeError):
        return None  # closed (uvloop raises ValueError), no TCP, or another event loop's own kind
    microseconds = int.from_bytes(info[_RTT_AT : _RTT_AT + 4], sys.byteorder)
    return microseconds / 1e6 if microseconds else None
