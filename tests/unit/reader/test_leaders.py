"""The leaders of a reader's topics, which may be left and wanted again."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from uuid import UUID

import pytest

from aioproducer.engine.client.requests import (
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.errors import ProducerError, TopicRecreatedError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.leaders import LeaderRefresh, Leaders
from tests.support.responses import at_once

ZERO = TopicPartition("orders", 0)


def described(topic_id: int | None) -> ClusterDescription:
    """A cluster with ``orders``, or with no topic."""
    partition = PartitionDescription(0, 1, 5, (1,), (1,))
    topics = {}
    if topic_id is not None:
        topics["orders"] = TopicDescription("orders", UUID(int=topic_id), False, 0, (partition,))
    return ClusterDescription(0, "c", 1, {1: Node(1, "localhost", 9092)}, topics)


def take(
    leaders: Leaders, description: ClusterDescription, now: float, failing: Collection[str] = ()
) -> dict[str, ProducerError]:
    return at_once(leaders.taking(description, now, failing))


def test_a_topic_that_was_left_is_known_until_the_next_description() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    known = leaders.leader(ZERO)
    assert known is not None
    leaders.leave("orders")
    assert list(leaders.topics) == []
    assert leaders.leader(ZERO) == known
    take(leaders, described(None), 0)
    assert leaders.leader(ZERO) is None


def is_recreated(leaders: Leaders, topic_id: int, now: float, *failing: str) -> bool:
    """Whether a description with this id says that the topic was created again."""
    error = take(leaders, described(topic_id), now, failing).get("orders")
    assert error is None or isinstance(error, TopicRecreatedError)
    return error is not None


def read(leaders: Leaders, topic_id: int) -> None:
    """A leader has served a fetch by this id."""
    leaders.served("orders", UUID(int=topic_id), by_id=True)


def test_a_topic_that_was_left_may_come_back_as_another_one() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    read(leaders, 1)
    leaders.leave("orders")
    leaders.add("orders")
    assert not is_recreated(leaders, 2, 0)
    assert leaders.topic_id("orders") == UUID(int=2)
    read(leaders, 2)
    leaders.refused(UUID(int=2))
    assert is_recreated(leaders, 3, 0)


def test_a_topic_is_superseded_when_its_leaders_say_so() -> None:
    """Until then a broker lags: the one that tells the other id, or the leader."""
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    read(leaders, 1)
    for now in (1, 20, 600):
        assert not is_recreated(leaders, 2, now)
        assert leaders.topic_id("orders") == UUID(int=1)
    leaders.refused(UUID(int=1))
    assert is_recreated(leaders, 2, 601)


def test_a_superseded_topic_never_comes_back() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    for present in (2, 3):
        read(leaders, present - 1)
        leaders.refused(UUID(int=present - 1))
        assert is_recreated(leaders, present, 1)
        leaders.renew("orders")
        for now in (1, 2, 20, 300, 600, 6_000):
            for former in range(1, present):
                assert not is_recreated(leaders, former, now, "orders")
                assert leaders.topic_id("orders") in {None, UUID(int=present)}
            if now == 20:
                assert not is_recreated(leaders, present, now)
                read(leaders, present)
    assert leaders.leader(ZERO) is not None


def test_fetches_by_names_say_nothing_about_ids() -> None:
    """So another id counts when it is told for long, and nothing else."""
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    leaders.served("orders", UUID(int=1), by_id=False)
    for now in range(1, 17):
        assert not is_recreated(leaders, 2, now)
        assert leaders.is_doubtful, "the next description is due soon"
    assert is_recreated(leaders, 2, 17)
    leaders.renew("orders")
    for now in (20, 21, 30, 40, 41):
        assert not is_recreated(leaders, 1, now)
    assert not is_recreated(leaders, 2, 42)
    assert leaders.topic_id("orders") == UUID(int=2)


@pytest.mark.parametrize("apart", [1, 300])
def test_a_broker_that_lags_supersedes_no_topic_that_is_read_by_its_name(apart: int) -> None:
    """Two lone descriptions do not count as long, however far apart they are."""
    leaders = Leaders(["orders"])
    take(leaders, described(2), 0)
    leaders.served("orders", UUID(int=2), by_id=False)
    for number in range(1, 40):
        told = 2 if number % 3 == 0 else 1
        assert not is_recreated(leaders, told, number * apart)
        leaders.served("orders", UUID(int=2), by_id=False)
    assert leaders.topic_id("orders") == UUID(int=2)


def test_two_descriptions_while_leaders_fail_supersede_no_topic() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(2), 0)
    read(leaders, 2)
    assert not is_recreated(leaders, 1, 1, "orders")
    assert not is_recreated(leaders, 1, 300, "orders")
    assert not is_recreated(leaders, 2, 301)
    assert not leaders.is_doubtful


def test_leaders_that_are_gone_do_not_keep_a_topic() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    read(leaders, 1)
    for now in (0, 10):
        assert not is_recreated(leaders, 2, now, "orders")
    assert not is_recreated(leaders, 1, 12, "orders"), "it has another leader"
    for now in (14, 15, 25, 29):
        assert not is_recreated(leaders, 2, now, "orders")
    assert is_recreated(leaders, 2, 30, "orders")
    for now in (31, 40):
        assert not is_recreated(leaders, 2, now), "they answer again"
    assert not is_recreated(leaders, 2, 50, "orders")


def test_the_former_id_of_a_topic_that_was_left_is_kept() -> None:
    """A consumer leaves a topic that was created again until it knows where to begin."""
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    read(leaders, 1)
    leaders.refused(UUID(int=1))
    assert is_recreated(leaders, 2, 0)
    leaders.leave("orders")
    leaders.renew("orders")
    take(leaders, described(1), 1)
    leaders.add("orders")
    for topic_id in (1, 2, 1):
        assert take(leaders, described(topic_id), 2) == {}
    assert leaders.topic_id("orders") == UUID(int=2)


def test_a_topic_of_which_nothing_was_read_is_any_that_is_told() -> None:
    """The first answer came from the only broker that knew the new topic, 2, or from the last one
    that did not. A leader that serves the id decides."""
    leaders = Leaders(["orders"])
    for topic_id in (2, 1, 2, 1):
        assert not is_recreated(leaders, topic_id, 0)
        assert leaders.topic_id("orders") == UUID(int=topic_id)
    take(leaders, described(2), 1)
    read(leaders, 2)
    for now in (2, 20, 600):
        assert not is_recreated(leaders, 1, now)
        assert leaders.topic_id("orders") == UUID(int=2)


def test_a_broker_that_tells_no_ids_makes_no_other_topic() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(1), 0)
    known = described(1).topics["orders"]
    description = described(None)._replace(topics={"orders": known._replace(topic_id=None)})
    assert take(leaders, description, 1) == {}


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("first", [1, 2])
def test_a_topic_that_one_outdated_answer_has_superseded_comes_back(
    by_id: bool, first: int
) -> None:
    """The leader refuses its id once, or knows no ids, and then one broker tells the former one."""
    leaders = Leaders(["orders"])
    take(leaders, described(2), 0)
    leaders.served("orders", UUID(int=2), by_id=by_id)
    leaders.refused(UUID(int=2))
    assert is_recreated(leaders, 1, 1)
    leaders.renew("orders")
    for now in (2, 20, 31):
        assert not is_recreated(leaders, first if now == 2 else 2, now, "orders")
    for now in (55, 56, 57, 65):
        assert not is_recreated(leaders, 2, now, "orders")
    assert leaders.topic_id("orders") == UUID(int=2)
    assert leaders.leader(ZERO) is not None


def test_a_leader_that_serves_an_id_again_has_not_lost_it() -> None:
    leaders = Leaders(["orders"])
    take(leaders, described(2), 0)
    read(leaders, 2)
    leaders.refused(UUID(int=2))
    read(leaders, 2)
    assert not is_recreated(leaders, 1, 100)
    assert leaders.topic_id("orders") == UUID(int=2)


def test_a_description_of_a_cluster_that_is_left_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aioproducer.reader.leaders._STEP", 1)
    leaders = Leaders(["orders", "payments"])
    known = described(1).topics["orders"]
    topics = {name: known._replace(name=name) for name in leaders.topics}
    steps = leaders.taking(described(1)._replace(topics=topics), 0)
    next(steps)
    leaders.leave_cluster()
    assert list(steps) == []
    assert [leaders.topic_id(each) for each in leaders.topics] == [None, None]


def test_a_request_during_a_refresh_is_not_lost() -> None:
    """The answer may be older than the error that asks for another one."""
    refresh = LeaderRefresh(300, ExponentialBackoff(1, 1, Random(1)), 0)
    assert refresh.due == 300
    refresh.request()
    assert refresh.due == 0
    refresh.begin()
    assert refresh.due is None, "it is under way"
    refresh.request()
    refresh.end(10, again=False)
    assert refresh.due == pytest.approx(11, abs=0.2), "after one backoff"
    refresh.begin()
    refresh.end(20, again=False)
    assert refresh.due == 320
