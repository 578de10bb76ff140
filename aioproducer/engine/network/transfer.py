"""Large requests and responses that take longer than ``request_timeout_ms`` to pass."""

from __future__ import annotations

import math
from typing import Any, Final

from aioproducer.engine.network.tcp_info import traffic
from aioproducer.foundation import tuning

__all__ = ["MOST_TIMEOUTS", "Transfer"]

MOST_TIMEOUTS: Final = 4
"""A request ends after so many times ``request_timeout_ms``, whatever passes."""


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
