"""What ``list_topics()`` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from aioproducer.compat.confluent.errors import KafkaError
from aioproducer.engine.client.describe_request import (
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "PartitionMetadata",
    "TopicMetadata",
    "cluster_metadata",
]


@dataclass(slots=True, eq=False, repr=False)
class BrokerMetadata:
    """A broker."""

    id: int = -1
    host: str | None = None
    port: int = -1

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


@dataclass(slots=True, eq=False, repr=False)
class PartitionMetadata:
    """A partition; brokers are named by their ids."""

    id: int = -1
    leader: int = -1
    """-1: there is none."""
    replicas: list[int] = field(default_factory=list)
    isrs: list[int] = field(default_factory=list)
    """The replicas in sync."""
    error: KafkaError | None = None

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"PartitionMetadata({self.id}{error})"

    def __str__(self) -> str:
        return str(self.id)


@dataclass(slots=True, eq=False, repr=False)
class TopicMetadata:
    """A topic with its partitions, by their numbers."""

    topic: str | None = None
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)
    error: KafkaError | None = None

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions{error})"

    def __str__(self) -> str:
        return str(self.topic)


@dataclass(slots=True, eq=False, repr=False)
class ClusterMetadata:
    """A cluster as one of its brokers describes it."""

    cluster_id: str | None = None
    controller_id: int = -1
    """-1: unknown."""
    brokers: dict[int, BrokerMetadata] = field(default_factory=dict)
    """By their ids."""
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    """By their names."""
    orig_broker_id: int = -1
    """-1: it is not known which broker has answered."""
    orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)


def cluster_metadata(described: ClusterDescription) -> ClusterMetadata:
    """The description as confluent-kafka has it."""
    brokers = described.brokers.values()
    return ClusterMetadata(
        described.cluster_id,
        -1 if described.controller is None else described.controller,
        {each.id: BrokerMetadata(each.id, each.host, each.port) for each in brokers},
        {topic: _topic(each) for topic, each in described.topics.items()},
    )


def _topic(described: TopicDescription) -> TopicMetadata:
    partitions = {each.partition: _partition(each) for each in described.partitions}
    return TopicMetadata(described.name, partitions, _error(described.error_code))


def _partition(described: PartitionDescription) -> PartitionMetadata:
    return PartitionMetadata(
        described.partition,
        -1 if described.leader is None else described.leader,
        list(described.replicas),
        list(described.in_sync_replicas),
        _error(described.error_code),
    )


def _error(code: int) -> KafkaError | None:
    return KafkaError(code) if code else None
