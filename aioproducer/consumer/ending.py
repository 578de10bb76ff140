"""The last steps of a consumer: each has its time, and none keeps the others from theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from aioproducer.consumer.assigned_partition import Hold
from aioproducer.consumer.coordinator import CoordinatorLink
from aioproducer.consumer.parts import ConsumerParts
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import is_being_cancelled, leave_alone, new_task

logger = RoomLogger(__name__)

_LONGEST_STEP: Final = 5.0
"""Seconds that one step may take."""
_ALL_STEPS: Final = 2 * _LONGEST_STEP
_SHORTEST_STEP: Final = 0.5


class Ending:
    """The end of ``consumer``, from now on. ``link``: asks the coordinator.

    Source: the ``close()`` of Kafka's ``AsyncKafkaConsumer``.
    """

    def __init__(
        self,
        consumer: object,
        client: ClusterClient,
        link: CoordinatorLink,
        parts: ConsumerParts,
    ) -> None:
        self._consumer = consumer
        self._client = client
        self._link = link
        self._parts = parts
        self._until = link.client.clock() + _ALL_STEPS

    async def run(self, tasks: Sequence[asyncio.Task[None]], *, commits: bool) -> None:
        """Take all steps. ``tasks``: those of the consumer, that of the member first.

        The member stays one until the last commit: the group may be in the middle of a rebalance,
        and takes the commit in the generation that the member learns of next.
        """
        parts, assignment = self._parts, self._parts.assignment
        assignment.hold(assignment.owned, Hold.CLOSED)
        if (handlers := assignment.handlers) is not None:
            handlers.drop(assignment.owned)
        assignment.end()
        called = assignment.oldest_call is not None
        if not called:
            parts.protocol.end()
        goodbye = new_task(parts.source.fetcher.end())  # beside the other steps, and a short one
        async with AsyncExitStack() as then:  # the last one first, whatever another one raises
            then.callback(self._end_handlers)
            then.push_async_callback(self._client.close)
            then.push_async_callback(self._link.close)
            if parts.telemetry is not None:
                then.push_async_callback(self._push)
            then.push_async_callback(asyncio.wait, {goodbye})
            then.push_async_callback(self._ask, "leave", self._leave)
            then.push_async_callback(self._stop, tasks[:1])
            if commits:
                commit = partial(parts.commits.commit, assignment.owned, _ALL_STEPS)
                then.push_async_callback(self._ask, "commit", commit, _ALL_STEPS)
            then.push_async_callback(self._step, "tell its callbacks", assignment.tell_of_end)
            if called:  # it ends first, as in Java, where close() can't overtake a callback
                await self._step("wait for a callback", assignment.call_ended)
                parts.protocol.end()
            await self._stop(tasks[1:])

    async def _stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        _, late = await asyncio.wait(tasks, timeout=self._seconds(_LONGEST_STEP))
        for task in late:
            leave_alone(task)
        if late:
            logger.warning("%r: a callback ignores its cancellation", self._consumer)

    def _end_handlers(self) -> None:
        if (handlers := self._parts.assignment.handlers) is not None:
            handlers.close(self._seconds(_LONGEST_STEP))

    async def _leave(self) -> None:
        await self._parts.member.leave(_LONGEST_STEP)

    async def _push(self) -> None:
        if not self._client.has_ended:
            await self._step("push its last metrics", self._client.finish)

    def _seconds(self, longest: float) -> float:
        """The seconds that the next step may take."""
        return min(max(self._until - self._link.client.clock(), _SHORTEST_STEP), longest)

    async def _ask(
        self, doing: str, job: Callable[[], Awaitable[None]], longest: float = _LONGEST_STEP
    ) -> None:
        """Do ``job``, which needs brokers, if the client still lives."""
        if not self._link.client.has_ended:
            await self._step(doing, job, longest)

    async def _step(
        self, doing: str, job: Callable[[], Awaitable[None]], longest: float = _LONGEST_STEP
    ) -> None:
        """Do ``job``; brokers that do not answer, or a late callback, are a line in the log."""
        seconds = self._seconds(longest)

        async def bounded() -> None:
            async with PatientTimeout(seconds):
                await job()

        task = new_task(bounded())
        await asyncio.wait({task}, timeout=seconds + _SHORTEST_STEP)
        why = f"it took longer than {duration(seconds)}"
        try:
            if not task.done():  # a callback ignores its cancellation
                leave_alone(task)
                raise TimeoutError
            task.result()
        except (ProducerError, TimeoutError) as error:
            why = str(error) or why
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            why = "a callback has cancelled its own task"
        else:
            return
        logger.warning("%r could not %s at its end: %s", self._consumer, doing, why)
