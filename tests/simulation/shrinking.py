"""The smallest life that still fails: parts of its plan are left out, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.simulation.judge import Judge
from tests.simulation.life import Life
from tests.simulation.plan import Plan

MOST_LIVES: Final = 600


def violations(plan: Plan) -> list[str]:
    """The broken promises of a life."""
    life = Life(plan)
    life.live()
    return Judge(life).violations()


def kinds(found: list[str]) -> set[str]:
    """The promises that were broken."""
    return {each.partition(":")[0] for each in found}


def shrink(
    plan: Plan, found: list[str], judge: Callable[[Plan], list[str]] = violations
) -> list[str]:
    """The labels that can be left out, so that one of the promises is still broken."""
    wanted, gone, left = kinds(found), list[str](), MOST_LIVES
    while left > 0:
        before = len(gone)
        for label in plan.labels():
            if label in gone or plan.without([*gone, label]) == plan.without(gone):
                continue
            left -= 1
            if left <= 0:
                break
            if kinds(judge(plan.without([*gone, label]))) & wanted:
                gone.append(label)
        if len(gone) == before:
            break
    return gone
