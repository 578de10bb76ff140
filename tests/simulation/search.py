"""Lives that fail: new seeds, the smallest plan of a failing life, and lives of other processes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

from tests.simulation.drawing import make_plan
from tests.simulation.judge import Judge
from tests.simulation.life import Life
from tests.simulation.mutations import mutated
from tests.simulation.plan import Plan

MOST_LIVES: Final = 600
ROOT: Final = Path(__file__).parents[2]
_FIRST: Final = 1_000_000
"""The seeds before are those that are known."""
_LAST: Final = 1_000_000_000


def new_seeds(count: int) -> range:
    """So many seeds, from anywhere. Whatever fails prints its own."""
    return _seeds(SystemRandom(), count)


def seeds_of_the_source(count: int, part: int = 0) -> range:
    """So many seeds, new ones after each change of the package: a commit has one result."""
    return _seeds(Random(f"{_source_hash()} {part}"), count)


def _seeds(random: Random, count: int) -> range:
    first = random.randrange(_FIRST, _LAST)
    return range(first, first + count)


@cache
def _source_hash() -> str:
    found = hashlib.sha256()
    for path in sorted((ROOT / "aioproducer").rglob("*.py*")):
        if path.suffix in (".py", ".pyx"):
            found.update(path.read_bytes())
    return found.hexdigest()


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


def first_finding(mutation: str, seeds: Iterable[int]) -> tuple[int, set[str]] | None:
    """The first seed whose life breaks promises only with the mutation, and those promises."""
    for seed in seeds:
        plan = make_plan(seed)
        with mutated(mutation):
            found = violations(plan)
        if found and not violations(plan):
            return seed, kinds(found)
    return None


def printed_by(program: str, hash_seed: str) -> list[str]:
    """The words that ``program`` prints in a process with this order of sets."""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    return found.stdout.split()
