"""A seed gives one life: again in this process, and in others whose sets have another order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.simulation.drawing import make_plan
from tests.simulation.life import Life

SEEDS: Final = range(24)
ROOT: Final = Path(__file__).parents[2]
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
    digests = [_digests_with(hash_seed) for hash_seed in ("0", "1", "2")]
    assert len(digests[0]) == len(SEEDS)
    assert digests[0] == digests[1] == digests[2]


def _digests_with(hash_seed: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", PRINT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    return found.stdout.split()
