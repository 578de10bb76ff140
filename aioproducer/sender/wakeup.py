"""How the sender sleeps: until something happens, or until a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Wakeup:
    """One coroutine sleeps in :meth:`wait`; anything may :meth:`wake` it, also before it sleeps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._awake = False
        self._sleeper: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the sleep, or the next one at once."""
        self._awake = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, deadline: float | None) -> None:
        """Sleep until woken or ``deadline`` (the clock's seconds); at least one loop iteration."""
        if self._awake or (deadline is not None and deadline <= self._clock()):
            self._awake = False
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        timer = None
        if deadline is not None:
            timer = loop.call_later(max(deadline - self._clock(), 0.0), self.wake)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            self._awake = False
            if timer is not None:
                timer.cancel()
