"""Waiting for what happens in another thread, or in Spark: none of them tells the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 60.0


async def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Until ``condition()`` is true. Raises TimeoutError after ``patience`` seconds."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
