"""The search for the first life that finds a fault of the engine."""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation.drawing import make_plan
from tests.simulation.mutations import mutated
from tests.simulation.shrinking import kinds, violations


def first_finding(mutation: str, seeds: Iterable[int]) -> tuple[int, set[str]] | None:
    """The first seed whose life breaks promises only with the mutation, and those promises."""
    for seed in seeds:
        plan = make_plan(seed)
        with mutated(mutation):
            found = violations(plan)
        if found and not violations(plan):
            return seed, kinds(found)
    return None
