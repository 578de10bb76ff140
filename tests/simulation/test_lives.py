"""Lives of the simulated world keep every promise.

Some are the same in each run, without and with features side by side, and so are those that found
a fault once. Two hundred and fifty are new, and a hundred thousand with ``-m soak``.
``AIOPRODUCER_LIVES=1000-2000`` lives those seeds instead. A failing life prints the command that
lives it again, and the smallest plan that fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import pytest

from tests.simulation.__main__ import report
from tests.simulation.drawing import make_plan
from tests.simulation.seeds import new_seeds
from tests.simulation.shrinking import violations
from tests.simulation.switches import BLOCK, PLAIN

CHOSEN: Final = os.environ.get("AIOPRODUCER_LIVES", "")
FIRST, _, END = CHOSEN.partition("-")
KNOWN: Final = (
    range(int(FIRST), int(END or int(FIRST) + 1))
    if CHOSEN
    else (*range(16), *range(len(PLAIN), len(PLAIN) + 3 * BLOCK))
)
FOUND_ONCE: Final = (
    900_063,
    1_015_507,
    1_056_221,
    20_004_237,
    20_009_385,
    66_619_832,
    470_199_859,
    515_679_661,
    970_599_780,
)
FOUND_WITH_SWITCHES: Final = (42_000_098, 64_183_192)
AT_ONCE: Final = 25
"""The lives of a test."""
SOAK_AT_ONCE: Final = 250

chosen_alone = pytest.mark.skipif(bool(CHOSEN), reason=f"AIOPRODUCER_LIVES={CHOSEN}")


def live(seeds: Iterable[int], *, plain: bool = False) -> None:
    """Live until a promise is broken."""
    for seed in seeds:
        plan = make_plan(seed, plain=plain)
        if found := violations(plan):
            pytest.fail(report(plan, found, [], None, shrunk=True), pytrace=False)


@pytest.mark.parametrize("first", range(0, len(KNOWN), AT_ONCE))
def test_known_lives_keep_every_promise(first: int) -> None:
    live(KNOWN[first : first + AT_ONCE])


@chosen_alone
@pytest.mark.parametrize("seed", FOUND_ONCE)
def test_what_was_found_once_is_mended(seed: int) -> None:
    live([seed], plain=True)


@chosen_alone
@pytest.mark.parametrize("seed", FOUND_WITH_SWITCHES)
def test_what_was_found_once_with_its_switches_is_mended(seed: int) -> None:
    live([seed])


@chosen_alone
@pytest.mark.parametrize("part", range(250 // AT_ONCE))
def test_new_lives_keep_every_promise(part: int) -> None:
    live(new_seeds(AT_ONCE))


@chosen_alone
@pytest.mark.soak
@pytest.mark.parametrize("part", range(100_000 // SOAK_AT_ONCE))
def test_a_hundred_thousand_new_lives_keep_every_promise(part: int) -> None:
    live(new_seeds(SOAK_AT_ONCE))
