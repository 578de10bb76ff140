"""Leaders and epochs: what counts when two brokers say different things."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aioproducer.engine.cluster.snapshot import Cluster, PartitionLeader, TopicInfo
from aioproducer.model import Node, TopicPartition

OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)
BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2, 3)}


def topic(*leaders: tuple[int, int], topic_id: UUID | None = OLD_ID) -> TopicInfo:
    """Each partition by leader and leader epoch."""
    return TopicInfo(
        "orders",
        topic_id,
        tuple(
            PartitionLeader(index, leader, epoch) for index, (leader, epoch) in enumerate(leaders)
        ),
    )


def cluster(*topics: TopicInfo) -> Cluster:
    return Cluster(BROKERS, topics)


@pytest.mark.parametrize(
    ("known", "news", "result"),
    [
        pytest.param([(1, 5)], [(2, 6)], [(2, 6)], id="higher epoch"),
        pytest.param([(1, 5)], [(1, 5)], [(1, 5)], id="same"),
        pytest.param([(1, 5)], [(2, 4)], [(1, 5)], id="older news of a lagging broker"),
        pytest.param([(1, 5)], [(-1, 5)], [(-1, 5)], id="same epoch, leader gone"),
        pytest.param([(1, 5)], [(-1, 4)], [(1, 5)], id="older news of no leader"),
        pytest.param([(1, 5)], [(2, -1)], [(2, -1)], id="a broker that does not say epochs"),
        pytest.param([(1, -1)], [(2, 0)], [(2, 0)], id="the first epoch"),
        pytest.param([(1, -1)], [(2, -1)], [(2, -1)], id="no epochs at all"),
        pytest.param([(1, 5), (2, 5)], [(2, 4), (3, 6)], [(1, 5), (3, 6)], id="each by itself"),
        pytest.param([(1, 5)], [(2, 4), (3, 0)], [(1, 5), (3, 0)], id="more partitions"),
        pytest.param([(1, 5), (2, 5)], [(3, 6)], [(3, 6)], id="fewer partitions"),
    ],
)
def test_leader_epochs_never_go_back(
    known: list[tuple[int, int]], news: list[tuple[int, int]], result: list[tuple[int, int]]
) -> None:
    it = cluster(topic(*known))
    changed = it.update_topic(topic(*news))
    assert it.topics["orders"] == topic(*result)
    assert changed == (None if result == known else topic(*result))


def test_a_lower_epoch_is_believed_when_answer_after_answer_tells_it() -> None:
    """An absurd epoch, told once by a damaged answer, does not hold for ever."""
    it, true = cluster(topic((77, 2**24), (2, 5))), topic((1, 5), (2, 5))
    seen = []
    for _ in range(6):
        it.update_topic(true)
        seen.append(it.topics["orders"].partitions[0].leader)
    assert seen == [77, 77, 77, 77, 1, 1]
    assert not it._doubts
    assert it.topics["orders"] == true


def test_an_answer_that_confirms_the_known_epoch_ends_the_doubt() -> None:
    known, lagging = topic((2, 6)), topic((1, 5))
    other = TopicInfo("other", None, (PartitionLeader(0, 1),))
    it = cluster(known)
    for _ in range(10):
        for each in (lagging, other, lagging, lagging, other, lagging, known):
            it.update_topic(each)
            assert it.topics["orders"] == topic((2, 6))
        assert not it._doubts


def test_the_doubts_of_a_topic_are_forgotten_with_it() -> None:
    it = cluster(topic((2, 6)))
    for _ in range(2):
        for _ in range(4):
            it.update_topic(topic((1, 5)))
        it.forget(["orders"])
        assert not it._doubts
        it.update_topic(topic((2, 6)))


@pytest.mark.parametrize(
    ("known_id", "news_id", "taken"),
    [
        pytest.param(OLD_ID, NEW_ID, True, id="deleted and made anew"),
        pytest.param(None, NEW_ID, True, id="the id was unknown before"),
        pytest.param(OLD_ID, OLD_ID, False, id="the same topic"),
        pytest.param(None, None, False, id="no ids at all"),
        pytest.param(OLD_ID, None, False, id="a broker that does not say ids"),
    ],
)
def test_a_topic_made_anew_begins_with_a_low_epoch(
    known_id: UUID | None, news_id: UUID | None, taken: bool
) -> None:
    """Source: Kafka's ``Metadata.updateLatestMetadata``."""
    it = cluster(topic((1, 5), topic_id=known_id))
    it.update_topic(topic((2, 0), topic_id=news_id))
    assert it.topics["orders"].partitions[0].leader == (2 if taken else 1)


def test_news_of_one_topic_touches_no_other() -> None:
    it = cluster(topic((1, 5)), TopicInfo("other", None, (PartitionLeader(0, 1),)))
    topics, other = it.topics, it.topics["other"]
    it.replace_brokers({2: BROKERS[2]})
    assert it.update_topic(topic((2, 6))) == topic((2, 6))
    assert it.brokers == {2: BROKERS[2]}
    assert it.topics is topics
    assert it.topics == {"orders": topic((2, 6)), "other": other}
    assert it.topics["other"] is other


def test_a_view_changes_nothing() -> None:
    it: Any = cluster(topic((1, 5)))
    with pytest.raises(TypeError):
        it.topics["orders"] = topic((2, 6))
    with pytest.raises(TypeError):
        it.brokers[7] = BROKERS[1]


@pytest.mark.parametrize(
    ("partition", "leader"), [(0, BROKERS[1]), (1, None), (2, None), (3, None)]
)
def test_the_leader_is_known_only_with_its_address(partition: int, leader: Node | None) -> None:
    snapshot = cluster(topic((1, 5), (-1, 5), (9, 5)))
    assert snapshot.leader("orders", partition) == leader
    assert snapshot.leader("unknown", 0) is None


# --- hints (KIP-951) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint_epoch", "taken"), [(4, False), (5, False), (6, True), (2**31 - 1, True), (-1, False)]
)
def test_a_hint_counts_only_with_a_higher_epoch(hint_epoch: int, taken: bool) -> None:
    known = cluster(topic((1, 5), (1, 5)))
    place = TopicPartition("orders", 1)
    moved = Node(4, "host4", 9092)
    known.update_leaders({place: PartitionLeader(1, 4, hint_epoch)}, {4: moved})
    if taken:
        assert known.topics["orders"] == topic((1, 5), (4, hint_epoch))
        assert known.leader(*place) == moved
        assert known.leader("orders", 0) == BROKERS[1]
    else:
        assert known.topics["orders"] == topic((1, 5), (1, 5))
        assert known.brokers == BROKERS


def test_a_hint_that_is_too_old_brings_no_addresses() -> None:
    known = cluster(topic((1, 5)))
    place = TopicPartition("orders", 0)
    stale = {1: Node(1, "former", 1)}
    known.update_leaders({place: PartitionLeader(0, 1, 4)}, stale)
    assert known.brokers == BROKERS


@pytest.mark.parametrize(
    "place", [TopicPartition("unknown", 0), TopicPartition("orders", 1), TopicPartition("", 7)]
)
def test_a_hint_for_what_is_not_known_is_ignored(place: TopicPartition) -> None:
    known = cluster(topic((1, 5)))
    known.update_leaders({place: PartitionLeader(place.partition, 2, 99)}, {})
    assert known.topics == {"orders": topic((1, 5))}


def test_older_news_does_not_undo_a_hint() -> None:
    place = TopicPartition("orders", 0)
    it = cluster(topic((1, 5)))
    it.update_leaders({place: PartitionLeader(0, 2, 6)}, {})
    assert it.update_topic(topic((1, 5))) is None
    assert it.topics["orders"] == topic((2, 6))


def test_forgetting_topics() -> None:
    known = cluster(topic((1, 5)), TopicInfo("other", None, (PartitionLeader(0, 1),)))
    known.forget(frozenset({"orders", "never known"}))
    assert set(known.topics) == {"other"}
