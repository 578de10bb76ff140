"""The rest of a time limit, and the limit that errors name."""

from __future__ import annotations

from aioproducer.engine.client.arguments import TimeLeft, countdown, limit_of
from tests.support.clock import Clock


def test_the_time_that_is_left_knows_its_limit() -> None:
    clock = Clock()
    left = countdown(10, clock)
    clock.now += 4
    assert (left(), limit_of(left())) == (6.0, 10.0)
    clock.now += 10
    assert (left(), limit_of(left())) == (0.0, 10.0)


def test_a_part_of_a_part_is_of_the_first_limit() -> None:
    clock = Clock()
    left = countdown(TimeLeft(3, 30), clock)
    clock.now += 1
    assert (left(), limit_of(left())) == (2.0, 30.0)


def test_a_number_is_its_own_limit() -> None:
    assert limit_of(2.5) == 2.5
