"""The first answer of a broker: a command that gets none ends soon, and says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import BootstrapError
from aioproducer.foundation.logs import duration
from aioproducer.producer import Producer

__all__ = ["answer_seconds", "first_answer", "producer_answered"]

_SECONDS: Final = 10.0


def answer_seconds(config: ProducerConfig) -> float:
    """The time for the first answer: 10 seconds, or ``max_block_ms`` if the user has set it."""
    return config.max_block_ms / 1000 if "max_block_ms" in config.given else _SECONDS


@asynccontextmanager
async def first_answer(client: ClusterClient, seconds: float) -> AsyncIterator[None]:
    """End the block if no broker has answered ``client`` after ``seconds``.

    Raises :class:`BootstrapError` then.
    """
    loop = asyncio.get_running_loop()
    reason = ""
    limit = asyncio.timeout(None)

    def look() -> None:
        nonlocal reason
        if not client.answered:
            reason = client.why_no_answer()
            limit.reschedule(loop.time())

    timer = loop.call_later(seconds, look)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _nobody(seconds, reason) from None
    finally:
        timer.cancel()


async def producer_answered(producer: Producer) -> None:
    """Return when a broker has answered. Raises :class:`BootstrapError` if none does in time."""
    seconds = answer_seconds(producer.config)
    try:
        await producer.check(seconds)
    except BootstrapError:
        reason = producer._core.engine.queries.why_no_answer()
        raise _nobody(seconds, reason) from None


def _nobody(seconds: float, reason: str) -> BootstrapError:
    return BootstrapError(
        f"no broker answered within {duration(seconds)}. {reason}. Check the address (-b) and "
        "the security protocol; `aioproducer mock` starts a mock cluster at localhost:9092, and "
        "-X max.block.ms=60000 waits longer"
    )
