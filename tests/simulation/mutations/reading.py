"""Faults of the Reader."""

from __future__ import annotations

from typing import Any

from aioproducer.reader import partition, reader
from aioproducer.reader.partition import PartitionState
from tests.simulation.mutations.patch import Mutation, Patch


def aborted_records_read(patch: Patch) -> None:
    """read_committed returns the records of aborted transactions."""
    patch(partition.AbortedTransactions, "hides", lambda _: lambda self, batch: False)


def record_read_twice(patch: Patch) -> None:
    """The position goes back by one record after each batch."""

    def mutant(advance: Any) -> Any:
        return lambda self, offset: advance(self, max(self.position, offset - 1))

    patch(PartitionState, "advance", mutant)


def nothing_read_from_beyond_the_end(patch: Patch) -> None:
    """A Reader that starts behind the end of the log takes it for read."""

    def mutant(_beyond: Any) -> Any:
        async def found(*_: Any) -> set[Any]:
            return set()

        return found

    patch(reader, "find_beyond", mutant)


MUTATIONS: tuple[Mutation, ...] = (
    aborted_records_read,
    record_read_twice,
    nothing_read_from_beyond_the_end,
)
