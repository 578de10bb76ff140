from __future__ import annotations

import pytest

from aioproducer.foundation.runtime.running_clock import RunningClock
from tests.support.clock import Clock


def test_all_time_counts_while_nothing_is_waited_for() -> None:
    machine = Clock()
    clock = RunningClock(machine)
    machine.now += 1e6
    assert clock() == clock.turn() == clock.outside() == machine.now
    assert clock.lost == 0


def test_time_stands_still_at_the_limit_until_the_loop_turns() -> None:
    machine = Clock(100.0)
    clock = RunningClock(machine)
    clock.limit = 101.0
    machine.now = 100.5
    assert clock() == 100.5
    machine.now = 160.0
    assert clock() == 101.0
    assert clock.outside() == 160.0, "another thread sees the gap"
    assert clock.turn() == 101.0
    assert clock.lost == 59.0
    clock.limit = 200.0
    machine.now = 161.0
    assert clock() == clock.outside() == 102.0


def test_a_turn_in_time_loses_nothing() -> None:
    machine = Clock(100.0)
    clock = RunningClock(machine)
    clock.limit = 101.0
    machine.now = 101.0
    assert clock.turn() == 101.0
    assert clock.lost == 0


@pytest.mark.parametrize("asked", [True, False])
def test_it_never_goes_back(asked: bool) -> None:
    machine = Clock(100.0)
    clock = RunningClock(machine)
    clock.limit = 101.0
    machine.now = 160.0
    before = clock() if asked else 0.0
    assert clock.turn() >= before
    assert clock() >= before


def test_a_loop_that_has_something_to_do_is_expected_to_turn_soon() -> None:
    machine = Clock(100.0)
    clock = RunningClock(machine)
    clock.expect_turn()
    machine.now = 160.0
    assert 100.0 < clock.turn() <= 100.5
    nearer = clock.limit = clock() + 0.01
    clock.expect_turn()
    assert clock.limit == nearer
