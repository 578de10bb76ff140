"""Turns of the event loop, for tests whose coroutines wait for nothing but each other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def settle(turns: int = 5) -> None:
    """Let every task run until it waits, for as many ``turns`` of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def started(call: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """A task for ``call``, which runs at the next turn of the event loop."""
    return asyncio.get_running_loop().create_task(call)
