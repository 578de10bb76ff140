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
    leaders.take(described(1), 0)
    known = leaders.leader(ZERO)
    assert known is not None
    leaders.leave("orders")
    assert list(leaders.topics) == []
    assert leaders.leader(ZERO) == known
    leaders.take(described(None), 0)
    assert leaders.leader(ZERO) is None


def test_a_topic_that_was_left_may_come_back_as_another_one() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1), 0)
    leaders.leave("orders")
    leaders.add("orders")
    assert leaders.take(described(2), 0) == {}
    assert leaders.topic_id("orders") == UUID(int=2)
    assert isinstance(leaders.take(described(3), 0)["orders"], TopicRecreatedError)


def test_a_broker_that_lags_does_not_bring_the_former_topic_back() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1), 0)
    assert isinstance(leaders.take(described(2), 0)["orders"], TopicRecreatedError)
    leaders.renew("orders")
    for now, topic_id in enumerate((1, 1, 2, 1, 2, 1, 1, 1, 1, 2, 1)):
        assert leaders.take(described(topic_id), now) == {}
        assert leaders.topic_id("orders") in {None, UUID(int=2)}
    assert leaders.leader(ZERO) is not None
    assert isinstance(leaders.take(described(3), 20)["orders"], TopicRecreatedError)
    leaders.renew("orders")
    for topic_id in (1, 2, 3, 2, 1, 3):
        assert leaders.take(described(topic_id), 21) == {}
    assert leaders.topic_id("orders") == UUID(int=3)


def test_the_former_id_of_a_topic_that_was_left_is_kept() -> None:
    """A consumer leaves a topic that was created again until it knows where to begin."""
    leaders = Leaders(["orders"])
    leaders.take(described(1), 0)
    leaders.take(described(2), 0)
    leaders.leave("orders")
    leaders.renew("orders")
    leaders.take(described(1), 1)
    leaders.add("orders")
    for topic_id in (1, 2, 1):
        assert leaders.take(described(topic_id), 2) == {}
    assert leaders.topic_id("orders") == UUID(int=2)


def test_a_former_topic_is_believed_if_no_broker_tells_another_one() -> None:
    """The first answer came from the only broker that knew the new topic, 2."""
    leaders = Leaders(["orders"])
    leaders.take(described(2), 0)
    leaders.take(described(1), 0)
    leaders.renew("orders")
    leaders.take(described(1), 1)
    for now in (2, 5, 11, 17):
        assert leaders.take(described(2), now) == {}
    assert isinstance(leaders.take(described(2), 18)["orders"], TopicRecreatedError)
    leaders.renew("orders")
    assert leaders.take(described(1), 18) == leaders.take(described(2), 18) == {}
    assert leaders.topic_id("orders") == UUID(int=2)


def test_a_broker_that_tells_no_ids_makes_no_other_topic() -> None:
    leaders = Leaders(["orders"])
    leaders.take(described(1), 0)
    known = described(1).topics["orders"]
    description = described(None)._replace(topics={"orders": known._replace(topic_id=None)})
    assert leaders.take(description, 1) == {}
