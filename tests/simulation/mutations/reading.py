"""Faults of the Reader."""

from __future__ import annotations

from typing import Any

from aioproducer.reader import aborted
from aioproducer.reader.partition import PartitionState
from tests.simulation.mutations.patch import Mutation, Patch


def aborted_records_read(patch: Patch) -> None:
    """read_committed returns the records of aborted transactions."""
    patch(aborted.AbortedTransactions, "hides", lambda _: lambda self, batch: False)


def record_read_twice(patch: Patch) -> None:
    """The position goes back by one record after each batch."""

    def mutant(advance: Any) -> Any:
        return lambda self, offset: advance(self, max(self.position, offset - 1))

    patch(PartitionState, "advance", mutant)


MUTATIONS: tuple[Mutation, ...] = (aborted_records_read, record_read_twice)
