"""A seed gives one life: again in this process, and in others whose sets have another order."""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.drawing import make_plan
from tests.simulation.life import Life
from tests.simulation.replay import printed_by

SEEDS: Final = range(12)
MANY: Final = range(200)
PRINT: Final = """
from tests.simulation.test_replay import MANY, SEEDS, digest
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
