"""Lives of groups keep every promise; a failing one prints the command that lives it again."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

import pytest

from tests.simulation.groups.life import lived
from tests.simulation.groups.plan import PLAIN, SETTLED, make_plan
from tests.simulation.search import new_seeds, printed_by, seeds_of_the_source

AT_ONCE = 10
KNOWN = [
    *range(5),
    *range(len(PLAIN), len(PLAIN) + 5),
    *range(len(SETTLED), len(SETTLED) + 5),
]
FOUND_ONCE = 321, 1_108, 1_174, 479_395_123
CALM_HANDLERS = 69
"""Two members of this life call handlers, and nothing goes wrong."""
SOAK_AT_ONCE = 250


def live(seeds: list[int]) -> None:
    for seed in seeds:
        plan = make_plan(seed)
        if broken := lived(plan):
            command = f"python -m tests.simulation.groups {seed}"
            pytest.fail("\n".join([command, str(plan), *broken[:10]]), pytrace=False)


@pytest.mark.parametrize("first", range(0, len(KNOWN), AT_ONCE))
def test_known_lives_of_groups_keep_every_promise(first: int) -> None:
    live(KNOWN[first : first + AT_ONCE])


@pytest.mark.parametrize("seed", FOUND_ONCE)
def test_what_was_found_once_is_mended(seed: int) -> None:
    live([seed])


def test_handlers_go_on_with_the_least_length_of_a_turn() -> None:
    """Once they paused for ever, because time passes in each pause."""
    plan = replace(make_plan(CALM_HANDLERS), knobs={"LONGEST_WORKERS_TURN": 0.0})
    assert lived(plan) == []


def test_new_lives_of_groups_keep_every_promise() -> None:
    live([*seeds_of_the_source(4)])


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10_000 // SOAK_AT_ONCE))
def test_ten_thousand_new_lives_of_groups_keep_every_promise(part: int) -> None:
    live([*new_seeds(SOAK_AT_ONCE)])


SEEDS: Final = (5, 6)
"""These lives have once depended on the order of sets."""
MANY: Final = range(40)
PRINT: Final = """
import logging
from tests.simulation.groups.test_group_lives import MANY, SEEDS, digest
logging.disable(logging.CRITICAL)
print(*sorted(map(digest, {seeds})))
"""


def digest(seed: int) -> str:
    """Of everything that went over the network of a life, and when."""
    trace = hashlib.sha256()
    lived(make_plan(seed), trace.update)
    return trace.hexdigest()


@pytest.mark.parametrize("seeds", ["SEEDS", pytest.param("MANY", marks=pytest.mark.soak)])
def test_lives_of_groups_do_not_depend_on_the_process(seeds: str) -> None:
    """Neither on the order of sets, nor on the lives before."""
    first = printed_by(PRINT.format(seeds=seeds), "0")
    assert len({*first}) == len(globals()[seeds])
    assert printed_by(PRINT.format(seeds=f"reversed({seeds})"), "1") == first
    assert printed_by(PRINT.format(seeds=seeds), "2") == first
