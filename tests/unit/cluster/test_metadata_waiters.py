"""Callers that wait for a topic, topics that are asked for by themselves, and unused ones."""

from __future__ import annotations

import pytest

from aioproducer.engine.cluster.metadata import Metadata, PartialUpdates
from aioproducer.engine.cluster.snapshot import TopicInfo
from aioproducer.errors import ProducerError
from aioproducer.foundation.backoff import ExponentialBackoff
from tests.support.clock import NoJitter
from tests.unit.cluster.known_cluster import (
    MAX_IDLE,
    NOW,
    asked,
    info,
    metadata,
    news,
    settled,
)


class Told:
    """The future of somebody who waits."""

    def __init__(self) -> None:
        self.results: list[TopicInfo | ProducerError] = []
        self.given_up = False

    def done(self) -> bool:
        return self.given_up or bool(self.results)

    def set_result(self, result: TopicInfo | ProducerError, /) -> None:
        self.results.append(result)


def waiting(it: Metadata, topic: str = "fresh") -> Told:
    told = Told()
    it.wait_for(topic, told, NOW)
    return told


def test_who_waits_for_a_topic_is_told_when_it_is_known_and_not_before() -> None:
    it = settled()
    waiters = [waiting(it), waiting(it)]
    other = waiting(it, "other")
    assert it.next_refresh() == 0.0, "it is asked for at once"
    asked(it, news(fresh=3))
    assert [each.results for each in waiters] == [[], []]
    asked(it, news(info("fresh", 2)))
    assert [each.results for each in waiters] == [[info("fresh", 2)]] * 2
    assert not other.done()
    asked(it, news(info("fresh", 3), info("other")))
    assert [each.results for each in waiters] == [[info("fresh", 2)]] * 2


def test_who_waits_for_a_topic_is_told_that_it_is_refused() -> None:
    it = metadata()
    refused = waiting(it)
    asked(it, news(fresh=29))
    assert refused.results == [it.errors["fresh"]]
    again = waiting(it)
    assert it.next_refresh() is not None, "what was refused before is asked anew"
    asked(it, news(other=29))
    assert not again.done(), "the answer said nothing of it"
    asked(it, news(info("fresh")))
    assert again.results == [info("fresh")]


def test_who_gave_up_waiting_is_told_nothing() -> None:
    it = metadata()
    gone, cancelled, stays = waiting(it), waiting(it), waiting(it)
    it.wait_no_longer("fresh", gone)
    it.wait_no_longer("fresh", gone)
    cancelled.given_up = True
    asked(it, news(info("fresh")))
    assert (gone.results, cancelled.results) == ([], [])
    assert stays.results == [info("fresh")]
    it.wait_no_longer("fresh", stays)


def test_who_waits_when_nothing_is_asked_any_more_is_told_why() -> None:
    it = metadata()
    waiters = [waiting(it), waiting(it, "other")]
    error = ProducerError("closed")
    it.tell_waiting(error)
    assert [each.results for each in waiters] == [[error], [error]]


def test_a_topic_that_is_waited_for_is_not_idle() -> None:
    it = metadata()
    told = waiting(it)
    assert it.idle_topics(NOW + MAX_IDLE) == frozenset()
    it.wait_no_longer("fresh", told)
    assert it.idle_topics(NOW + MAX_IDLE) == {"fresh"}


@pytest.mark.parametrize(
    ("later", "idle"), [(0.0, False), (MAX_IDLE - 0.001, False), (MAX_IDLE, True), (1e6, True)]
)
def test_a_topic_unused_for_long_is_idle(later: float, idle: bool) -> None:
    it = settled()
    it.use("busy", NOW + later)
    assert it.idle_topics(NOW + later) == ({"orders"} if idle else set())


def test_a_forgotten_topic_is_gone_and_is_new_when_it_comes_back() -> None:
    it = settled()
    it.use("other", NOW)
    asked(it, news(info("orders"), other=3))
    it.forget(frozenset({"orders", "other"}))
    assert it.topics == frozenset()
    assert not it.snapshot.topics
    assert not it.errors
    assert it.next_refresh() is None, "nobody needs a refresh"
    it.use("orders", NOW)
    assert it.next_refresh() == 0.0


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
    names = {f"t{number}" for number in range(4801)}
    for name in names:
        it.request(name, new=True)
    taken = []
    while some := it.take(NOW, FLOOR):
        taken.append(some)
    assert [len(some) for some in taken] == [2000, 2000, 801]
    assert frozenset().union(*taken) == names


def test_what_is_forgotten_is_wanted_no_more() -> None:
    it = updates()
    it.request("a")
    it.request("b")
    it.forget({"a", "never wanted"})
    assert ("a" in it, "b" in it) == (False, True)
    assert it.take(FLOOR, FLOOR) == {"b"}
