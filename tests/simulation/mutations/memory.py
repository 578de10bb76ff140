"""Faults of the memory."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.accumulator.memory_quota import BufferPool
from tests.simulation.mutations.patch import Mutation, Patch


def memory_not_returned(patch: Patch) -> None:
    """The memory of every batch stays taken by some bytes."""

    def mutant(deallocate: Any) -> Any:
        def returned(self: BufferPool, buffer: bytearray, node: Any) -> None:
            deallocate(self, buffer, node)
            self._unpooled -= 1

        return returned

    patch(BufferPool, "deallocate", mutant)


MUTATIONS: tuple[Mutation, ...] = (memory_not_returned,)
