"""What most tests of the accumulator begin with."""

from __future__ import annotations

import pytest

from tests.unit.accumulator.world import AccumulatorWorld


@pytest.fixture
def world() -> AccumulatorWorld:
    made = AccumulatorWorld()
    made.learn(1, 1, 2)
    return made
