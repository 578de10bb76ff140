"""Lives of the simulated world keep every promise.

``AIOPRODUCER_LIVES=1000-2000`` lives these seeds instead. A failing life prints the command that
lives it again.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.simulation.__main__ import report
from tests.simulation.drawing import make_plan
from tests.simulation.shrinking import violations

FIRST, _, END = os.environ.get("AIOPRODUCER_LIVES", "0-100").partition("-")
AT_ONCE: Final = 25
"""The lives of a test."""


@pytest.mark.parametrize("first", range(int(FIRST), int(END), AT_ONCE))
def test_lives_keep_every_promise(first: int) -> None:
    broken = []
    for seed in range(first, min(first + AT_ONCE, int(END))):
        plan = make_plan(seed)
        if found := violations(plan):
            broken.append(report(plan, found, [], None, shrunk=True))
    assert not broken, "\n".join(broken)
