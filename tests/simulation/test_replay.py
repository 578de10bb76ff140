"""A seed gives one life: again in this process, and in others whose sets have another order."""

from __future__ import annotations

from typing import Final

from tests.simulation.drawing import make_plan
from tests.simulation.life import Life
from tests.simulation.replay import printed_by

SEEDS: Final = range(24)
PRINT: Final = """
from tests.simulation.test_replay import SEEDS, digest
print(*map(digest, SEEDS))
"""


def digest(seed: int) -> str:
    """Of everything that went over the network of a life, and when."""
    life = Life(make_plan(seed))
    life.live()
    return life.trace.hexdigest()


def test_each_life_is_the_same_again() -> None:
    assert [digest(seed) for seed in SEEDS] == [digest(seed) for seed in SEEDS]


def test_lives_do_not_depend_on_the_process() -> None:
    digests = [printed_by(PRINT, hash_seed) for hash_seed in ("0", "1", "2")]
    assert len(digests[0]) == len(SEEDS)
    assert digests[0] == digests[1] == digests[2]
