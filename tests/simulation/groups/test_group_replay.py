"""A seed gives one life of a group, in every process: a failing one can be lived again."""

from __future__ import annotations

import hashlib
from typing import Final

from tests.simulation.groups.life import lived
from tests.simulation.groups.plan import make_plan
from tests.simulation.replay import printed_by

SEEDS: Final = range(8)
"""Lives 5 and 6 have once depended on the order of sets."""
PRINT: Final = """
import logging
from tests.simulation.groups.test_group_replay import SEEDS, digest
logging.disable(logging.CRITICAL)
print(*map(digest, SEEDS))
"""


def digest(seed: int) -> str:
    """Of everything that went over the network of a life, and when."""
    trace = hashlib.sha256()
    lived(make_plan(seed), trace.update)
    return trace.hexdigest()


def test_lives_of_groups_do_not_depend_on_the_process() -> None:
    first, *others = [printed_by(PRINT, hash_seed) for hash_seed in ("0", "1", "2")]
    assert len({*first}) == len(SEEDS)
    assert others == [first, first]
