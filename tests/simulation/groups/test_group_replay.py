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
print(*sorted(map(digest, {seeds})))
"""


def digest(seed: int) -> str:
    """Of everything that went over the network of a life, and when."""
    trace = hashlib.sha256()
    lived(make_plan(seed), trace.update)
    return trace.hexdigest()


def test_lives_of_groups_do_not_depend_on_the_process() -> None:
    """Neither on the order of sets, nor on the lives before."""
    first = printed_by(PRINT.format(seeds="SEEDS"), "0")
    assert len({*first}) == len(SEEDS)
    assert printed_by(PRINT.format(seeds="reversed(SEEDS)"), "1") == first
    assert printed_by(PRINT.format(seeds="SEEDS"), "2") == first
