"""Faults of patience: what is judged late, and when."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.sender import sender
from aioproducer.foundation.runtime.running_clock import RunningClock
from tests.simulation.mutations.patch import Mutation, Patch


def stops_count(patch: Patch) -> None:
    """Time in which the process was stopped makes records late."""
    for name in ("turn", "__call__"):
        patch(RunningClock, name, lambda _: lambda self: self._source() - self.lost)


def judged_before_reading(patch: Patch) -> None:
    """Batches and requests are late although their responses wait in the sockets."""

    def mutant(_read: Any) -> Any:
        async def read_nothing(*_: Any) -> None:
            pass

        return read_nothing

    stops_count(patch)
    patch(sender, "sockets_read", mutant)


MUTATIONS: tuple[Mutation, ...] = (stops_count, judged_before_reading)
