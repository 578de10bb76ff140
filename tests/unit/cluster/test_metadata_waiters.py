"""Callers that wait for a topic, and topics that nobody uses any more."""

from __future__ import annotations

import pytest

from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.cluster.snapshot import TopicInfo
from aioproducer.errors import ProducerError
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
