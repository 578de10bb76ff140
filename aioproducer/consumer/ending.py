"""The last steps of a consumer: each has its time, and none keeps the others from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import new_task
from aioproducer.foundation.wording import duration

logger = RoomLogger(__name__)

LONGEST_STEP: Final = 5.0
"""Seconds that one step may take."""
_ALL_STEPS: Final = 2 * LONGEST_STEP
_SHORTEST_STEP: Final = 0.5


class Ending:
    """The end of ``consumer``, from now on. ``client``: asks the coordinator."""

    def __init__(self, consumer: object, client: ClusterClient) -> None:
        self._consumer = consumer
        self._client = client
        self._until = client.clock() + _ALL_STEPS

    @property
    def seconds(self) -> float:
        """The seconds that the next step may take."""
        return min(max(self._until - self._client.clock(), _SHORTEST_STEP), LONGEST_STEP)

    async def ask(self, doing: str, job: Callable[[], Awaitable[None]]) -> None:
        """Do ``job``, which needs brokers, if the client still lives."""
        if not self._client.has_ended:
            await self.step(doing, job)

    async def step(self, doing: str, job: Callable[[], Awaitable[None]]) -> None:
        """Do ``job``; brokers that do not answer, or a late callback, are a line in the log."""
        seconds = self.seconds

        async def bounded() -> None:
            async with PatientTimeout(seconds):
                await job()

        task = new_task(bounded())
        late = f"it took longer than {duration(seconds)}"
        await asyncio.wait({task}, timeout=seconds + _SHORTEST_STEP)
        try:
            if not task.done():  # a callback ignores its cancellation
                raise TimeoutError
            task.result()
        except (ProducerError, TimeoutError) as error:
            why = str(error) or late
            logger.warning("%r could not %s at its end: %s", self._consumer, doing, why)
