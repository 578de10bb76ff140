"""Back pressure, as callers that send more see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aioproducer.engine.accumulator import MemoryWaiters


class BackPressure(Protocol):
    """A view of the memory: is there room for more records?"""

    is_full: bool
    """True if some broker has no memory left: callers look closer then."""

    def must_wait(self) -> bool:
        """True if a caller may have to wait now."""


class Unavailable:
    """A substitute if there is no accumulator, or another process has it.

    It makes callers wait, and the wait raises the reason.
    """

    is_full = True

    def must_wait(self) -> bool:
        """Always True."""
        return True


async def drain(waiters: MemoryWaiters, caller: object, clock: Callable[[], float]) -> None:
    """Wait for room, behind earlier callers. Source: ``StreamWriter.drain``."""
    waited, stalled = False, caller in waiters.stalled
    while (room := waiters.room_for(caller, clock())) is not None:
        waited = True
        await room
        if caller not in waiters.stalled:
            return
    if stalled and not waited:
        await asyncio.sleep(0)  # a caller whose records are refused must not hold the loop
