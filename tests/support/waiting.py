"""Waiting for what tells no event loop: a thread, a process, a broker; and turns of a loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

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


_T = TypeVar("_T")


async def settle(turns: int = 5) -> None:
    """Let every task run until it waits, for as many ``turns`` of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def started(call: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """A task for ``call``, which runs at the next turn of the event loop."""
    return asyncio.get_running_loop().create_task(call)
