"""What a broker's Metadata response says, version by version, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aioproducer.cluster.snapshot import NO_EPOCH, ClusterSnapshot, PartitionInfo, TopicInfo
from aioproducer.errors import KafkaError, explain, kafka_error
from aioproducer.model import Node

_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9
"""Before (Kafka 2.4), a broker may tell an old leader epoch while replicas are reassigned."""


class MetadataNews(NamedTuple):
    """The topics that are known, and those that have an error instead."""

    snapshot: ClusterSnapshot
    errors: Mapping[str, KafkaError]
    stale: bool = False
    """A partition has no leader, say: the next answer may tell more."""


def read_metadata(response: Any) -> MetadataNews:
    """``response``: kio's ``MetadataResponse`` of any version from 1.

    A partition without a leader keeps its place with leader -1; a topic is complete or an error.
    """
    brokers = {
        int(broker.node_id): Node(int(broker.node_id), broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    epochs = response.__version__ >= _FIRST_VERSION_WITH_RELIABLE_EPOCHS
    topics: dict[str, TopicInfo] = {}
    errors: dict[str, KafkaError] = {}
    stale = False
    for topic in response.topics:
        if topic.name is None:
            continue
        name = str(topic.name)
        if topic.error_code:
            code = int(topic.error_code)
            errors[name] = kafka_error(code, f"topic {name!r}: {explain(code)}")
        elif topic.partitions:
            topics[name] = _topic(name, topic, epochs)
            stale = stale or any(map(_is_stale, topic.partitions))
    return MetadataNews(ClusterSnapshot(brokers, topics), errors, stale)


_MOST_PARTITIONS = 1_000_000
"""A higher number of a partition is no number: it would take memory for all that are below it."""


def _topic(name: str, topic: Any, epochs: bool) -> TopicInfo:
    partitions = {
        int(each.partition_index): each
        for each in topic.partitions
        if 0 <= each.partition_index < _MOST_PARTITIONS
    }
    count = max(partitions, default=-1) + 1
    return TopicInfo(
        name,
        getattr(topic, "topic_id", None),
        tuple(_partition(index, partitions.get(index), epochs) for index in range(count)),
    )


def _partition(index: int, partition: Any | None, epochs: bool) -> PartitionInfo:
    if partition is None:
        return PartitionInfo(index, -1)
    epoch = int(partition.leader_epoch) if epochs else NO_EPOCH
    return PartitionInfo(index, int(partition.leader_id), epoch)


def _is_stale(partition: Any) -> bool:
    code = int(partition.error_code)
    return bool(code) and kafka_error(code, "").refresh_metadata
