"""The sleep of a client's one task, until an event or a deadline: of a producer's sender, of the
task of an Admin, a Reader or a Consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final

from aioproducer.foundation import tuning
from aioproducer.foundation.runtime.running_clock import PART_OF_BEAT, RunningClock

_LEAST_DELAY: Final = 1e-6
"""Seconds. The clock's times are rounded: a shorter delay might not move them."""


class Wakeup:
    """One coroutine sleeps in :meth:`wait`; any code may wake it, also before it sleeps.

    A timer outlives its sleep, because most sleeps end before their deadline, and the next deadline
    is nearly the same. It is only set again if it would fire too late, or has fired too early.

    ``source``: the machine's clock. The turns of :attr:`clock` are the ends of sleeps.
    """

    def __init__(self, source: Callable[[], float]) -> None:
        self.clock = RunningClock(source)
        self.clock.expect_turn()
        self._now: float = self.clock()
        """The time of the last turn."""
        self._awake = False
        self._error: BaseException | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def wake(self, now: float | None = None) -> None:
        """End the sleep, or the next one at once. ``now``: the time; None: to be read."""
        self._awake = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)
            self.clock.expect_turn(now)

    def fail(self, error: BaseException) -> None:
        """Raise ``error`` in the sleeping coroutine, or in the next sleep."""
        self._error = error
        self.wake()

    async def wait(self, deadline: float | None, late_at: float | None = None) -> float:
        """Sleep until woken or ``deadline``; at least one loop iteration. Returns the time then.

        Times are the clock's seconds. ``late_at``: the time at which something is late, if it is
        waited for. The sleep ends long before, so that a stop is noticed.
        """
        self.clock.limit = inf
        if late_at is not None:
            pause = (late_at - self._now) * PART_OF_BEAT
            if pause < tuning.LEAST_BEAT:
                pause = tuning.LEAST_BEAT
            self.clock.limit = self._now + 2 * pause
            if deadline is None or deadline > self._now + pause:
                deadline = self._now + pause
        if self._awake or (deadline is not None and deadline <= self._now):
            self._awake = False
            self.clock.expect_turn()
            await asyncio.sleep(0)
            return self.turn()
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        self._deadline = deadline
        if deadline is not None and (self._timer is None or deadline < self._rings_at):
            self._set_timer(loop, deadline)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            self._deadline = None
            self._awake = False
        return self.turn()

    def turn(self) -> float:
        """The time, in a callback of the loop. Raises the error of :meth:`fail`."""
        if self._error is not None:
            raise self._error
        self._now = now = self.clock.turn()
        return now

    def _set_timer(self, loop: asyncio.AbstractEventLoop, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = moment
        left = moment - self.clock()
        delay = max(left, _LEAST_DELAY) if left > 0 else 0.0
        self._timer = loop.call_later(delay, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._deadline > self._rings_at:
            self._set_timer(loop, self._deadline)
        else:
            self.wake()

    def close(self) -> None:
        """Cancel the timer: no coroutine will sleep here any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
