"""Cancellation that waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioproducer.producer import Producer

__all__ = ["closed_if_cancelled"]


@asynccontextmanager
async def closed_if_cancelled(producer: Producer) -> AsyncIterator[None]:
    """Close the producer at once when the block is cancelled, before the end of an outer block
    would flush, or abort a transaction."""
    try:
        yield
    except asyncio.CancelledError:
        await producer.close(0)
        raise
