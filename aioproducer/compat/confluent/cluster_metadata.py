"""confluent-kafka's ``TopicPartition``, and ``list_topics()``: its request, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, Final

from aioproducer.compat.confluent.errors import KafkaError
from aioproducer.engine.client.requests import (
    ClusterDescription,
    DescribeRequest,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.engine.core.queries import ClusterQueries
from aioproducer.errors import NetworkError, ProducerError
from aioproducer.foundation.runtime.patience import PatientTimeout

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TopicPartition",
    "BrokerMetadata",
    "ClusterMetadata",
    "PartitionMetadata",
    "TopicMetadata",
    "cluster_metadata",
    "describe",
]


OFFSET_BEGINNING: Final = -2
"""The first record of a partition, instead of an offset."""
OFFSET_END: Final = -1
"""The end of a partition, instead of an offset."""
OFFSET_STORED: Final = -1000
"""The committed offset of a group, instead of an offset."""
OFFSET_INVALID: Final = -1001
"""No offset."""


@total_ordering
class TopicPartition:
    """A partition of a topic, with an offset: two are equal if topic and partition are.

    Args:
        topic: the name.
        partition: the number; -1: none.
        offset: an offset, or one of the ``OFFSET_`` numbers.
        metadata: a string that is committed with the offset.
        leader_epoch: the epoch of the leader at the offset; None or negative: unknown.
    """

    __slots__ = ("_epoch", "error", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        self.topic = topic
        self.partition = _whole(partition)
        self.offset = _whole(offset)
        self.metadata = metadata
        self._epoch = -1 if leader_epoch is None else _whole(leader_epoch)
        self.error: KafkaError | None = None
        """The error of this partition in a call about several."""

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader; None: unknown."""
        return None if self._epoch < 0 else self._epoch

    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place() == other._place()

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place() < other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},"
            f"offset={self.offset},leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _whole(number: Any) -> int:
    if not hasattr(type(number), "__index__"):
        raise TypeError(f"{type(number).__name__!r} object cannot be interpreted as an integer")
    return int(number)


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


_WHOLE_CLUSTER: Final = DescribeRequest(None)


async def describe(
    queries: ClusterQueries, topic: str | None, timeout: float | None
) -> ClusterDescription:
    """The cluster with one topic, or with all.

    ``timeout``: seconds; None: without limit.

    Raises:
        NetworkError: no broker has answered in time.
    """
    request = _WHOLE_CLUSTER if topic is None else DescribeRequest((topic,))
    try:
        async with PatientTimeout(timeout):
            found: ClusterDescription = await queries.request(request)
            return found
    except TimeoutError as error:
        if isinstance(error, ProducerError):
            raise
        raise NetworkError(
            f"no broker has described the cluster in time: {queries.why_no_answer()}"
        ) from None
