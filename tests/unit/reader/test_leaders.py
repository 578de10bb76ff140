"""The leaders of a reader's topics, which may be left and wanted again."""

from __future__ import annotations

from uuid import UUID

from aioproducer.engine.client.describe_request import (
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.errors import TopicRecreatedError
from aioproducer.model import Node, TopicPartition
from aioproducer.reader.leaders import Leaders

ZERO = TopicPartition("orders", 0)


def described(topic_id: int | None) -> ClusterDescription:
    """A cluster with ``orders``, or with no topic."""
    partition = PartitionDescription(0, 1, 5, (1,), (1,))
    topics = {}
    if topic_id is not None:
        topics["orders"] = TopicDescription("orders", UUID(int=topic_id), False, 0, (partition,))
    return ClusterDescription(0, "c", 1, {1: Node(1, "localhost", 9092)}, topics)


def test_a_topic_that_was_left_is_known_until_the_next_description() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1))
    known = leaders.leader(ZERO)
    assert known is not None
    leaders.leave("orders")
    assert list(leaders.topics) == []
    assert leaders.leader(ZERO) == known
    leaders.take(described(None))
    assert leaders.leader(ZERO) is None


def test_a_topic_that_was_left_may_come_back_as_another_one() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1))
    leaders.leave("orders")
    leaders.add("orders")
    assert leaders.take(described(2)) == {}
    assert leaders.topic_id("orders") == UUID(int=2)
    assert isinstance(leaders.take(described(3))["orders"], TopicRecreatedError)


def test_a_broker_that_lags_does_not_bring_the_former_topic_back() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1))
    assert isinstance(leaders.take(described(2))["orders"], TopicRecreatedError)
    leaders.renew("orders")
    for topic_id in (1, 1, 2, 1, 2, 1, 1, 1, 1, 2, 1):
        assert leaders.take(described(topic_id)) == {}
        assert leaders.topic_id("orders") in {None, UUID(int=2)}
    assert leaders.leader(ZERO) is not None
    assert isinstance(leaders.take(described(3))["orders"], TopicRecreatedError)


def test_a_former_topic_is_believed_if_all_brokers_insist() -> None:
    """The first description came from a broker that lagged less than the second one."""
    leaders = Leaders(["orders"])
    leaders.take(described(2))
    leaders.take(described(1))
    leaders.renew("orders")
    leaders.take(described(1))
    for _ in range(9):
        assert leaders.take(described(2)) == {}
    assert isinstance(leaders.take(described(2))["orders"], TopicRecreatedError)
    leaders.renew("orders")
    assert leaders.take(described(2)) == {}
    assert leaders.topic_id("orders") == UUID(int=2)
