"""Requests for some topics alone, between those for all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.cluster.snapshot import PartitionLeader
from aioproducer.errors import ProducerError
from aioproducer.model import PartitionInfo, TopicPartition
from tests.unit.cluster.known_cluster import (
    BACKOFF,
    BROKERS,
    MAX_AGE,
    NOW,
    asked,
    info,
    metadata,
    news,
    told,
)


def many(count: int = 5) -> Metadata:
    """Knows so many topics since NOW."""
    it = metadata()
    names = [f"t{number}" for number in range(count)]
    for name in names:
        it.use(name, NOW)
    asked(it, news(*map(info, names)))
    return it


def test_a_new_topic_is_asked_for_alone_and_what_is_known_of_others_keeps_its_age() -> None:
    it = many()
    assert it.last_full_update == NOW
    it.use("new", NOW + 7)
    assert it.next_refresh() == 0.0
    request = it.start(NOW + 7)
    assert request == (frozenset({"new"}), False)
    assert told(it, news(info("new")), request, NOW + 7) == ["new"]
    assert set(it.snapshot.topics) == {"new", "t0", "t1", "t2", "t3", "t4"}
    assert (it.last_update, it.last_full_update) == (NOW + 7, NOW)
    assert it.next_refresh() == NOW + MAX_AGE
    assert it.start(NOW + MAX_AGE) == (it.topics, True)


def test_a_deleted_topic_is_asked_for_alone_and_less_and_less_often() -> None:
    it, now, requests = many(), NOW, []
    it.request_update("t3")
    for _ in range(7):
        due = it.next_refresh()
        assert due is not None
        requests.append((round(due - now, 3), it.start(due)))
        told(it, news(t3=3), requests[-1][1], due)
        it.request_update("t3")
        now = due
    assert [wait for wait, _ in requests] == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert {request for _, request in requests} == {(frozenset({"t3"}), False)}
    assert it.snapshot.topics["t3"] == info("t3"), "its leaders may be needed yet"


def test_a_topic_without_leader_is_asked_for_alone() -> None:
    it = many()
    asked(it, replace(news(*map(info, it.topics)), stale={"t1"}), NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)
    assert it.start(NOW + BACKOFF) == (frozenset({"t1"}), False)


def test_topics_that_are_in_doubt_at_the_same_time_share_a_request() -> None:
    it = many()
    for topic in ("t1", "t4", "t1"):
        it.request_update(topic)
    assert it.start(NOW + BACKOFF) == (frozenset({"t1", "t4"}), False)


def test_doubt_about_the_brokers_asks_for_all_topics() -> None:
    it = many()
    it.request_update("t1")
    it.request_update()
    assert it.start(NOW + BACKOFF) == (it.topics, True)
    assert it.next_refresh() is None


def test_a_full_request_without_answer_is_made_again_as_one() -> None:
    it = many()
    it.request_update()
    it.start(NOW)
    it.failed(NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)
    assert it.start(NOW + BACKOFF).full


def test_only_what_is_new_is_told() -> None:
    it = many()
    it.request_update()
    answer = news(*map(info, ("t0", "t1", "t2", "t3")), info("t4", 3))
    assert told(it, answer, it.start(NOW)) == ["t4"]


def test_a_topic_that_lacks_what_is_wanted_is_asked_for_again_later_each_time() -> None:
    """A partition beyond the known ones is wanted of it, say, as long as records wait for it."""
    it, now, waits = many(), NOW, []
    it.seek("t2", NOW)
    for _ in range(6):
        due = it.next_refresh()
        assert due is not None
        waits.append(due - now)
        request = it.start(due)
        assert request == (frozenset({"t2"}), False)
        it.seek("t2", due)  # more records come, whose answer is under way
        list(it.update(news(info("t2")), request, due, lacks=lambda topic: topic == "t2"))
        now = due
    assert waits == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8, 1.0])
    due = it.next_refresh()
    assert due is not None
    list(it.update(news(info("t2")), it.start(due), due, lacks=lambda _: False))
    assert it.next_refresh() == NOW + MAX_AGE


def test_who_seeks_a_topic_whose_turn_in_an_answer_is_over_is_not_forgotten() -> None:
    it = many(1)
    it.request_update("t0")
    taking = it.update(news(info("t0")), it.start(NOW + BACKOFF), NOW)
    next(taking)
    it.seek("t0", NOW)  # in time
    assert list(taking) == []
    assert it.next_refresh() == NOW + MAX_AGE
    it.seek("t0", NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)


def test_a_hint_that_comes_while_an_answer_is_read_is_not_undone_by_it() -> None:
    it = many(2)
    it.request_update()
    taking = it.update(news(info("t0", 1, 1, 0), info("t1", 1, 1, 0)), it.start(NOW), NOW)
    place = TopicPartition("t1", 0)
    it.take_hints({place: PartitionLeader(0, 2, 1)}, {})
    assert [each for each in taking if each is not None] == []
    assert it.snapshot.leader(*place) == BROKERS[2]


class Detailed:
    def __init__(self) -> None:
        self.results: list[tuple[PartitionInfo, ...] | ProducerError] = []

    def done(self) -> bool:
        return bool(self.results)

    def set_result(self, result: tuple[PartitionInfo, ...] | ProducerError, /) -> None:
        self.results.append(result)


def test_replicas_are_asked_for_anew_and_given_to_those_who_want_them() -> None:
    it = many()
    wanted, refused, gone = Detailed(), Detailed(), Detailed()
    it.wait_for_details("t1", wanted, NOW)
    it.wait_for_details("t2", refused, NOW)
    it.wait_for_details("t3", gone, NOW)
    it.wait_for_details_no_longer("t3", gone)
    assert set(it.detailed) == {"t1", "t2"}
    request = it.start(NOW + BACKOFF)
    assert request == (frozenset({"t1", "t2", "t3"}), False)
    details = (PartitionInfo("t1", 0, BROKERS[1], (BROKERS[1],), (BROKERS[1],)),)
    told(it, replace(news(info("t1"), info("t3"), t2=29), details={"t1": details}), request)
    assert wanted.results == [details]
    assert refused.results == [it.errors["t2"]]
    assert (gone.results, set(it.detailed)) == ([], set())
    late = Detailed()
    it.wait_for_details("t4", late, NOW)
    assert "t4" not in it.idle_topics(NOW + 1e6)
    closed = ProducerError("closed")
    it.tell_waiting(closed)
    assert late.results == [closed]
