"""Topics as lines and as JSON, and the arguments of `kafka-topics`."""

from __future__ import annotations

from uuid import UUID

import pytest

from aioproducer.admin import ConfigEntry, PartitionDescription, TopicDescription
from aioproducer.cli.topics import replica_lists, topic_fields, topic_lines, topic_settings
from aioproducer.errors import ConfigError

ORDERS = TopicDescription(
    "orders",
    UUID(int=7),
    False,
    (
        PartitionDescription(0, 11, 4, (11, 2), (11, 2)),
        PartitionDescription(1, None, 5, (2, 11), (), (11, 2)),
    ),
    {
        "retention.ms": ConfigEntry("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG"),
        "cleanup.policy": ConfigEntry("cleanup.policy", "delete", "DEFAULT_CONFIG"),
    },
)


def test_a_topic_as_lines() -> None:
    assert list(topic_lines(ORDERS, 2)) == [
        "orders: 2 partitions, 2 replicas each",
        "  retention.ms=5",
        "  partition  leader  replicas  in sync",
        "  0          11      11,2      11,2",
        "  1          none    2,11      none",
    ]


def test_some_partitions_of_a_topic() -> None:
    some = ORDERS._replace(partitions=ORDERS.partitions[:1], configs=None)
    assert next(topic_lines(some, 1)) == "orders: 1 partition, 2 replicas each"


def test_a_topic_as_json() -> None:
    assert topic_fields(ORDERS) == {
        "name": "orders",
        "id": "00000000-0000-0000-0000-000000000007",
        "internal": False,
        "configs": {"retention.ms": "5"},
        "partitions": [
            {
                "partition": 0,
                "leader": 11,
                "leader_epoch": 4,
                "replicas": [11, 2],
                "in_sync_replicas": [11, 2],
                "offline_replicas": [],
            },
            {
                "partition": 1,
                "leader": None,
                "leader_epoch": 5,
                "replicas": [2, 11],
                "in_sync_replicas": [],
                "offline_replicas": [11, 2],
            },
        ],
    }
    assert topic_fields(ORDERS._replace(configs=None))["configs"] is None


def test_replicas_of_partitions() -> None:
    assert replica_lists("1:2,2:3,3") == [[1, 2], [2, 3], [3]]


@pytest.mark.parametrize("text", ["", "1:", "a:b", "1;2", "1,,2"])
def test_replicas_that_are_no_lists(text: str) -> None:
    with pytest.raises(ConfigError, match="write the broker ids of each partition"):
        replica_lists(text)


def test_settings() -> None:
    assert topic_settings(["a.b=1", "c=", "d=x=y"]) == {"a.b": "1", "c": "", "d": "x=y"}
    for wrong in ("a", "=1"):
        with pytest.raises(ConfigError, match="write name=value"):
            topic_settings([wrong])
