"""What a broker's Metadata response says, version by version, as one value."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from aioproducer.cluster.snapshot import NO_EPOCH, ClusterSnapshot, PartitionInfo, TopicInfo
from aioproducer.errors import KafkaError, ProtocolError, explain, kafka_error
from aioproducer.model import Node

_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9
"""Before (Kafka 2.4), a broker may tell an old leader epoch while replicas are reassigned."""


_NO_LEADER: Final = -1


class MetadataNews(NamedTuple):
    """The topics that are known, and those that have an error instead."""

    snapshot: ClusterSnapshot
    errors: Mapping[str, KafkaError]
    stale: bool = False
    """A partition has no leader, say: the next answer may tell more."""
    error_code: int = 0
    """Of the whole answer, which then says nothing else."""


def read_metadata(response: Any, asked: Container[str]) -> MetadataNews:
    """``response``: kio's ``MetadataResponse`` of any version from 1, to a request for ``asked``.

    A partition without a leader keeps its place; a topic is complete or an error. Kafka's -1 for no
    leader ends here. Topics that were not asked for, and brokers without an address, are left out.
    Raises :class:`ProtocolError` for numbers that nothing can have.
    """
    code = int(getattr(response, "error_code", 0))
    if code:
        return MetadataNews(ClusterSnapshot({}), {}, error_code=code)
    brokers = {
        int(broker.node_id): Node(int(broker.node_id), broker.host, broker.port, broker.rack)
        for broker in response.brokers
        if broker.host
    }
    if min(brokers, default=0) < 0:
        raise ProtocolError(f"a broker with id {min(brokers)}")
    epochs = response.__version__ >= _FIRST_VERSION_WITH_RELIABLE_EPOCHS
    topics: dict[str, TopicInfo] = {}
    errors: dict[str, KafkaError] = {}
    stale = False
    for topic in response.topics:
        if topic.name is None or topic.name not in asked:
            continue
        name = str(topic.name)
        if topic.error_code:
            code = int(topic.error_code)
            errors[name] = kafka_error(code, f"topic {name!r}: {explain(code)}")
        elif topic.partitions:
            topics[name] = _topic(name, topic, epochs)
            stale = stale or any(map(_is_stale, topic.partitions))
    return MetadataNews(ClusterSnapshot(brokers, topics), errors, stale)


_MOST_MISSING = 1000
"""A topic that lacks more partitions is none: those that are not told of take memory as well."""


def _topic(name: str, topic: Any, epochs: bool) -> TopicInfo:
    partitions = {int(each.partition_index): each for each in topic.partitions}
    told = len(topic.partitions)
    count = max(partitions) + 1
    if len(partitions) < told or min(partitions) < 0 or count - told > _MOST_MISSING:
        raise ProtocolError(
            f"{told} partitions of topic {name!r} with {len(partitions)} numbers from "
            f"{min(partitions)} to {count - 1}"
        )
    return TopicInfo(
        name,
        getattr(topic, "topic_id", None),
        tuple(_partition(index, partitions.get(index), epochs) for index in range(count)),
    )


def _partition(index: int, partition: Any | None, epochs: bool) -> PartitionInfo:
    if partition is None:
        return PartitionInfo(index, None)
    leader = int(partition.leader_id)
    epoch = int(partition.leader_epoch) if epochs else NO_EPOCH
    if leader < _NO_LEADER or epoch < NO_EPOCH:
        raise ProtocolError(f"partition {index} with leader {leader}, leader epoch {epoch}")
    return PartitionInfo(index, None if leader == _NO_LEADER else leader, epoch)


def _is_stale(partition: Any) -> bool:
    code = int(partition.error_code)
    return bool(code) and kafka_error(code, "").refresh_metadata
