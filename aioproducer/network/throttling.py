"""For how long a broker wants to be left alone (KIP-219). No I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

MAX_THROTTLE: Final = 11.0
"""Seconds; a broker that asks to be left alone for longer is left alone for so long.

A broker measures a quota over ``quota.window.num`` windows of ``quota.window.size.seconds``, 11 of
1 s by default. After that time it has forgotten what was too much, so a longer pause serves nobody;
and a damaged answer could ask for 24 days. A broker that really reads nothing for longer lets the
next request wait, and ``request_timeout_ms`` bounds that.
"""


def throttle_seconds(response: Any) -> float | None:
    """The pause that a response asks for, within bounds; None: its version does not tell."""
    asked: timedelta | None = getattr(response, "throttle_time", None)
    return None if asked is None else min(max(asked.total_seconds(), 0.0), MAX_THROTTLE)
