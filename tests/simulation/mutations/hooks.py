"""Faults of hooks, and of the objects that callers pass."""

from __future__ import annotations

import asyncio
from typing import Any

from aioproducer.engine.core.failures import FailureWorker
from aioproducer.engine.core.serializer_preparation import SerializerPreparation
from aioproducer.engine.observer import ObservedFuture
from aioproducer.serialization import serializer
from tests.simulation.mutations.patch import Mutation, Patch


def flush_waits_for_its_own_hook(patch: Patch) -> None:
    """flush() in on_failed waits until on_failed has returned."""

    def mutant(_join: Any) -> Any:
        async def joined(self: FailureWorker) -> None:
            until = self.queue.added
            if not self._closed and until > self._handled:
                future = asyncio.get_running_loop().create_future()
                self._joined.append((until, future))
                await future

        return joined

    patch(FailureWorker, "join", mutant)


def close_waits_for_its_own_hook(patch: Patch) -> None:
    """close() in on_failed waits until on_failed has returned."""
    patch(FailureWorker, "closing", lambda _: lambda self: None)


def failed_record_not_kept(patch: Patch) -> None:
    """Of several records that fail at once, on_failed gets one."""

    def mutant(run: Any) -> Any:
        async def ran(self: FailureWorker) -> None:
            self._handler = _First(self._handler)
            await run(self)

        return ran

    patch(FailureWorker, "_run", mutant)


def trace_ends_twice(patch: Patch) -> None:
    """The trace of a delivered record gets its outcome twice."""

    def mutant(set_result: Any) -> Any:
        def told(self: ObservedFuture, metadata: Any) -> None:
            self._told(metadata, None)
            set_result(self, metadata)

        return told

    patch(ObservedFuture, "set_result", mutant)


def value_copied_late(patch: Patch) -> None:
    """A record that waits refers to its caller's buffer until a batch takes it."""

    def mutant(plain_bytes: Any) -> Any:
        def made(data: Any, *more: Any) -> Any:
            return data if isinstance(data, bytearray) else plain_bytes(data, *more)

        return made

    patch(serializer, "plain_bytes", mutant)


def value_serialized_late(patch: Patch) -> None:
    """A serializer that was not prepared gets its caller's object, as it is later."""
    patch(SerializerPreparation, "copy_of", lambda _: lambda self, data, topic: data)


class _First:
    def __init__(self, handler: Any) -> None:
        self._handler = handler

    async def handle(self, records: Any) -> None:
        await self._handler.handle(records[:1])

    async def close(self) -> None:
        await self._handler.close()


MUTATIONS: tuple[Mutation, ...] = (
    flush_waits_for_its_own_hook,
    close_waits_for_its_own_hook,
    failed_record_not_kept,
    trace_ends_twice,
    value_copied_late,
    value_serialized_late,
)
