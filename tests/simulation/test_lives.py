"""Lives of the simulated world keep every promise, and are replayed by their seed.

Some are the same in each run, without and with features side by side, and so are those that found
a fault once. A hundred are new, and a hundred thousand with ``-m soak``.
``AIOPRODUCER_LIVES=1000-2000`` lives those seeds instead. A failing life prints the command that
lives it again, and the smallest plan that fails.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

import pytest

import aioproducer
from aioproducer import Producer
from aioproducer.foundation import tuning
from aioproducer.testing import simulate
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.simulation.__main__ import report
from tests.simulation.drawing import make_plan
from tests.simulation.knobs import KNOBS, drawn_knobs, tuned
from tests.simulation.life import Life
from tests.simulation.search import new_seeds, printed_by, seeds_of_the_source, violations
from tests.simulation.switches import BLOCK, PLAIN, SWITCHES, Pairs, switches_of

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
@pytest.mark.parametrize("part", range(100 // AT_ONCE))
def test_new_lives_keep_every_promise(part: int) -> None:
    live(seeds_of_the_source(AT_ONCE, part))


@chosen_alone
@pytest.mark.soak
@pytest.mark.parametrize("part", range(100_000 // SOAK_AT_ONCE))
def test_a_hundred_thousand_new_lives_keep_every_promise(part: int) -> None:
    live(new_seeds(SOAK_AT_ONCE))


SEEDS: Final = range(12)
MANY: Final = range(200)
PRINT: Final = """
from tests.simulation.test_lives import MANY, SEEDS, digest
print(*map(digest, {seeds}))
"""


def digest(seed: int) -> str:
    """Of everything that went over the network of a life, and when."""
    life = Life(make_plan(seed))
    life.live()
    return life.trace.hexdigest()


def test_each_life_is_the_same_again() -> None:
    assert [digest(seed) for seed in SEEDS] == [digest(seed) for seed in SEEDS]


@pytest.mark.parametrize("seeds", ["SEEDS", pytest.param("MANY", marks=pytest.mark.soak)])
def test_lives_do_not_depend_on_the_process(seeds: str) -> None:
    program = PRINT.format(seeds=seeds)
    digests = [printed_by(program, hash_seed) for hash_seed in ("0", "1", "2")]
    assert len(digests[0]) == len(globals()[seeds])
    assert digests[0] == digests[1] == digests[2]


AFTER_PLAIN = len(PLAIN)


def test_each_block_of_seeds_has_every_pair() -> None:
    for block in range(AFTER_PLAIN, AFTER_PLAIN + 50 * BLOCK, BLOCK):
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


RECORDS = 20


@pytest.mark.parametrize("held", [0.01, 0.03, 0.1])
def test_an_awaited_record_needs_few_turns(held: float) -> None:
    """Four: it leaves, it travels, and its response is read. The sender judges nothing late."""

    async def life(world: SimulatedWorld) -> None:
        turns = 0

        async def hold() -> None:
            nonlocal turns
            while True:
                world.freeze(held)
                turns += 1
                await asyncio.sleep(0)

        async with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
            await producer.send("orders", b"first")
            holding = asyncio.create_task(hold())
            world.freeze(1.0)
            await producer.send("orders", b"after a stop")
            turns = 0
            for _ in range(RECORDS):
                await producer.send("orders", b"v")
            assert turns <= 5 * RECORDS
            holding.cancel()

    simulate(life, topics={"orders": 1})
