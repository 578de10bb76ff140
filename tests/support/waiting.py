"""Waiting for something that tells no event loop: another thread, another process, a broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0


async def until(
    condition: Callable[[], object] | Callable[[], Awaitable[bool]],
    what: str = "the condition",
    timeout: float = 30.0,
) -> None:
    """Return when ``condition()``, or what it awaits, is true; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        met = condition()
        if isinstance(met, Awaitable):
            met = await met
        if met:
            return
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        await asyncio.sleep(0.005)


def wait_until(
    condition: Callable[[], object], what: str = "the condition", timeout: float = PATIENCE
) -> None:
    """Block until ``condition()`` is true; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.01)
