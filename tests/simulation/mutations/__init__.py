"""Faults that are put into the engine, to prove that the simulation finds them.

Each is a function that replaces methods by a :class:`Patch`. A mutation changes what a part of the
producer does, not what the judge looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.simulation.mutations import (
    batches,
    connections,
    hooks,
    memory,
    numbers,
    patience,
    reading,
    transactions,
)
from tests.simulation.mutations.patch import Mutation, Patch

__all__ = ["MUTATIONS", "mutated"]

MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for room in (numbers, batches, transactions, memory, connections, patience, hooks, reading)
    for mutation in room.MUTATIONS
}
"""Every mutation by its name."""


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Run the block with a fault in the engine; None: with none."""
    with ExitStack() as undo:
        if name is not None:
            MUTATIONS[name](Patch(undo))
        yield
