"""A seed gives one life of a group, in every process: a failing one can be lived again."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest

from tests.simulation.groups.life import lived
from tests.simulation.groups.plan import make_plan
from tests.simulation.replay import printed_by

SEEDS: Final = (5, 6)
"""These lives have once depended on the order of sets."""
MANY: Final = range(40)
PRINT: Final = """
import logging
from tests.simulation.groups.test_group_replay import MANY, SEEDS, digest
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
