"""The wait of ``drain()``: asyncio around the decisions of :class:`MemoryWaiters`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioproducer.engine.accumulator import MemoryWaiters


async def drain(waiters: MemoryWaiters, caller: object, clock: Callable[[], float]) -> None:
    """Wait for room, after earlier callers. Source: ``StreamWriter.drain``."""
    waited, stalled = False, caller in waiters.stalled
    while (turn := waiters.turn(caller, clock())) is not None:
        waited = True
        await turn
        if caller not in waiters.stalled:
            return
    if stalled and not waited:
        await asyncio.sleep(0)  # a caller whose records are refused must not hold the loop
