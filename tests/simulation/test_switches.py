"""The switches and the knobs of lives: every pair is drawn, and every number within its range."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import aioproducer
from aioproducer.foundation import tuning
from tests.simulation.knobs import KNOBS, drawn_knobs, tuned
from tests.simulation.switches import BLOCK, PLAIN, SWITCHES, Pairs, switches_of

FIRST = len(PLAIN)


def test_each_block_of_seeds_has_every_pair() -> None:
    for block in range(FIRST, FIRST + 50 * BLOCK, BLOCK):
        pairs = Pairs()
        for seed in range(block, block + BLOCK):
            pairs.add(switches_of(seed))
        assert len([*pairs.lines()]) == 1, [*pairs.lines()]


def test_a_missing_pair_is_named() -> None:
    pairs = Pairs()
    pairs.add(set(SWITCHES) - {"burst"})
    assert len([*pairs.lines()]) == len(SWITCHES)
    assert "  never lived: burst with knobs" in pairs.lines()


def test_every_number_takes_its_least_value_and_its_usual_one() -> None:
    drawn = [drawn_knobs(Random(seed)) for seed in range(200)]
    for name, (least, usual) in KNOBS.items():
        values = {each.get(name, usual) for each in drawn}
        assert min(values) == least, name
        assert max(values) == usual, name
        assert all(type(each) is type(usual) for each in values), name


def test_the_numbers_are_as_usual_again() -> None:
    before = {name: getattr(tuning, name) for name in KNOBS}
    with tuned({name: least for name, (least, _) in KNOBS.items()}):
        assert {name: getattr(tuning, name) for name in KNOBS} != before
    assert {name: getattr(tuning, name) for name in KNOBS} == before


def test_no_module_imports_a_number_by_itself() -> None:
    """It would keep the usual value."""
    sources = Path(aioproducer.__file__).parent.rglob("*.py*")
    copies = re.compile(r"foundation\.tuning (c?import)|from \.tuning import")
    found = [each for each in sources if each.suffix != ".pyc" and copies.search(each.read_text())]
    assert found == []
