"""The pause that a broker asks for by its quota (KIP-219). No I/O.

``NetworkClient._on_response`` gives it to the connection, and ``Exchange.takes`` refuses requests
until it is over.
"""

from __future__ import annotations

from typing import Any, Final

MAX_THROTTLE: Final = 11.0
"""Seconds; the longest pause that the client keeps.

A broker measures a quota over ``quota.window.num`` windows of ``quota.window.size.seconds``, 11 of
1 s by default. After that time it has forgotten the excess, so a longer pause serves nobody; and a
damaged response could ask for 24 days. If a broker really reads nothing for longer, the next
request waits, and ``request_timeout_ms`` bounds that.
"""


def throttle_seconds(response: Any) -> float | None:
    """The pause that a response asks for, within bounds; None: its version has no such field."""
    milliseconds: int | None = getattr(response, "throttle_time_ms", None)
    if not milliseconds:
        return None if milliseconds is None else 0.0
    return min(max(milliseconds / 1000, 0.0), MAX_THROTTLE)
