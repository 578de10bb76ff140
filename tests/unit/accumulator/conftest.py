"""What most tests of the accumulator begin with."""

from __future__ import annotations

import pytest

from tests.unit.accumulator.world import World


@pytest.fixture
def world() -> World:
    made = World()
    made.learn(1, 1, 2)
    return made
