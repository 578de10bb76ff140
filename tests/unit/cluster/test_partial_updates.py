"""Topics that are asked for by themselves: which of them, and when."""

from __future__ import annotations

import pytest

from aioproducer.engine.cluster.metadata import PartialUpdates
from aioproducer.foundation.backoff import ExponentialBackoff
from tests.support.chance import NoJitter

NOW = 1000.0
FLOOR = NOW + 5


def updates() -> PartialUpdates:
    return PartialUpdates(ExponentialBackoff(0.1, 1.0, NoJitter()))


def test_nothing_is_wanted_at_first() -> None:
    assert updates().due(FLOOR) is None
    assert updates().take(NOW, 0.0) == frozenset()


def test_a_fresh_topic_goes_round_the_floor_and_the_others_do_not_come_along() -> None:
    it = updates()
    it.request("old")
    assert it.due(FLOOR) == FLOOR
    it.request("new", new=True)
    assert it.due(FLOOR) == 0.0
    assert it.take(NOW, FLOOR) == {"new"}
    assert it.due(FLOOR) == FLOOR
    assert it.take(FLOOR, FLOOR) == {"old"}
    assert it.due(FLOOR) is None


def test_each_topic_waits_longer_each_time_by_itself() -> None:
    it, waits, now = updates(), [], NOW
    it.request("gone", new=True)
    for _ in range(6):
        assert "gone" in it.take(now, now)
        it.missed("gone", now)
        it.request("gone")
        assert it.take(now, now) == frozenset(), "to want it again does not shorten its backoff"
        due = it.due(now)
        assert due is not None
        waits.append(due - now)
        it.request("other")
        assert it.take(now, now) == {"other"}
        it.found("other")
        now = due
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    it.take(now, now)
    it.found("gone")
    assert it.due(now) is None
    it.request("gone")
    it.take(now, now)
    it.missed("gone", now)
    assert it.due(now) == pytest.approx(now + 0.1), "success forgot the failures"


def test_what_got_no_answer_is_wanted_as_before() -> None:
    it = updates()
    it.request("new", new=True)
    it.take(NOW, FLOOR)
    it.unanswered()
    assert it.due(FLOOR) == FLOOR, "it is fresh no more"
    assert it.take(FLOOR, FLOOR) == {"new"}


def test_a_wish_during_a_request_outlives_its_answer() -> None:
    it = updates()
    it.request("orders")
    it.take(NOW, NOW)
    it.request("orders")
    it.found("orders")
    assert it.take(NOW, NOW) == {"orders"}


def test_thousands_are_asked_for_by_and_by() -> None:
    it = updates()
    names = {f"t{number}" for number in range(1201)}
    for name in names:
        it.request(name, new=True)
    taken = []
    while some := it.take(NOW, FLOOR):
        taken.append(some)
    assert [len(some) for some in taken] == [500, 500, 201]
    assert frozenset().union(*taken) == names


def test_what_is_forgotten_is_wanted_no_more() -> None:
    it = updates()
    it.request("a")
    it.request("b")
    it.forget({"a", "never wanted"})
    assert ("a" in it, "b" in it) == (False, True)
    assert it.take(FLOOR, FLOOR) == {"b"}
