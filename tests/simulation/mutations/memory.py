"""Faults of the memory and of those who wait for it."""

from __future__ import annotations

from typing import Any

from aioproducer.accumulator.buffer_pool import BufferPool
from aioproducer.accumulator.pending_queue import PendingQueue
from aioproducer.accumulator.pending_records import PendingRecord
from tests.simulation.mutations.patch import Mutation, Patch


def memory_not_returned(patch: Patch) -> None:
    """The memory of every batch stays taken by some bytes."""

    def mutant(deallocate: Any) -> Any:
        def returned(self: BufferPool, buffer: bytearray, node: Any) -> None:
            deallocate(self, buffer, node)
            self.total -= 1

        return returned

    patch(BufferPool, "deallocate", mutant)


def cancelled_record_sent(patch: Patch) -> None:
    """A record that its caller takes back while it waits is sent all the same."""
    patch(PendingQueue, "withdraw", lambda _: lambda self, record: None)
    patch(PendingQueue, "withdraw_cancelled", lambda _: lambda self: None)
    patch(PendingRecord, "settled", lambda settled: settled)


MUTATIONS: tuple[Mutation, ...] = (memory_not_returned,)
