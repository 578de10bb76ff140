"""Records are due at their rate; what was late is caught up with."""

from __future__ import annotations

import pytest

from aioproducer.cli.performance_run import RateSchedule


def test_without_a_rate_everything_is_due() -> None:
    schedule = RateSchedule(None, 100.0)
    assert schedule.due(0, 100.0, 500) == 500
    assert schedule.pause(10_000, 100.0) == 0


def test_the_first_record_is_due_at_once() -> None:
    assert RateSchedule(0.5, 100.0).due(0, 100.0, 500) == 1
    assert RateSchedule(0.5, 100.0).due(1, 100.0, 500) == 0


def test_the_next_record_names_its_time() -> None:
    schedule = RateSchedule(10, 100.0)
    assert schedule.pause(1, 100.0) == pytest.approx(0.1)
    assert schedule.due(1, 100.1001, 500) == 1


def test_late_records_are_caught_up_with_in_parts() -> None:
    schedule = RateSchedule(1000, 100.0)
    assert schedule.due(0, 102.0, 500) == 500
    assert schedule.due(1900, 102.0, 500) == 101


@pytest.mark.parametrize("rate", [1, 3, 999, 50_000, 1_000_000])
def test_the_rate_is_kept(rate: int) -> None:
    schedule = RateSchedule(rate, 0.0)
    now, sent = 0.0, 0
    while now < 10:
        count = schedule.due(sent, now, 500)
        sent += count
        now += 0.0 if count else schedule.pause(sent, now)
    assert sent == pytest.approx(rate * 10, rel=0.001, abs=1)
