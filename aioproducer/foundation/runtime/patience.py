"""Waits that judge nothing late before what has arrived is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final

from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import PART_OF_BEAT

_TURNS: Final = 4
"""Turns of the event loop in which the sockets are polled after the first one. The callback of a
turn may run before that turn's poll, and uvloop's timers always do."""
_MOST_READINGS: Final = 100
"""A peer that never stops sending delays a judgement by so many readings."""


async def sockets_read(
    received: Callable[[], object], turned: Callable[[], object] | None = None
) -> None:
    """Let the loop read what had arrived before this call, or before a stop during it.

    One turn reads a part of a long response, so turns follow until ``received``, a count of pieces
    and of stops, stays the same. ``turned`` is called in each turn.
    """
    if turned is not None:
        turned()
    for _ in range(_MOST_READINGS):
        before = received()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if turned is not None:
                turned()
        if received() == before:
            return


class PatientTimeout:
    """:func:`asyncio.timeout` that lets the loop read what has arrived before it expires.

    ``stops_count``: False leaves out the time in which the process was stopped or the loop held.
    ``more``: called when the time is over, and returns the seconds that are added; 0: none.
    """

    def __init__(
        self,
        seconds: float | None,
        *,
        stops_count: bool = False,
        more: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._seconds = seconds
        self._stops_count = stops_count
        self._more = more
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None

    async def __aenter__(self) -> PatientTimeout:
        self._loop = asyncio.get_running_loop()
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._sleep(self._seconds)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def expired(self) -> bool:
        """True if the timeout has cancelled the body."""
        return self._timeout.expired()

    def _sleep(self, left: float) -> None:
        delay = (
            left if self._stops_count else min(left, max(left * PART_OF_BEAT, tuning.LEAST_BEAT))
        )
        self._timer = self._loop.call_later(delay, self._look, left, delay, self._loop.time())

    def _look(self, left: float, delay: float, began: float) -> None:
        passed = self._loop.time() - began
        left -= passed if self._stops_count else min(passed, 2 * delay)
        if left > 0:
            self._sleep(left)
        else:
            self._expire_after(_TURNS)

    def _expire_after(self, turns: int) -> None:
        if turns:
            self._timer = self._loop.call_soon(self._expire_after, turns - 1)
        elif (more := self._more()) > 0:
            self._sleep(more)
        else:
            self._timeout.reschedule(self._loop.time())
