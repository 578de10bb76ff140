"""The request that describes a cluster, its topics and the principal's permissions. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.network.frames import EncodedPayload, encoded, read_response
from aioproducer.engine.network.lazy_metadata import LazyMetadataResponse
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError
from aioproducer.foundation.wording import counted
from aioproducer.model import Node

_FIRST_WITH_OPERATIONS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10
_UNKNOWN: Final = -(2**31)
_MOST_MISSING: Final = 1000
"""The partitions that a description may leave out."""
_WRITE: Final = 4
"""Kafka's number of the operation (``AclOperation``), and its bit in a set of them."""


class PartitionDescription(NamedTuple):
    """A partition, as described by a broker. Brokers are identified by id."""

    partition: int
    leader: int | None
    """None while there is none."""
    leader_epoch: int
    """Grows with every election; -1 from brokers that do not report it."""
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class TopicDescription(NamedTuple):
    """A topic as a broker describes it."""

    name: str
    topic_id: UUID | None
    """None from brokers without topic ids (before Kafka 2.8)."""
    internal: bool
    error_code: int
    partitions: tuple[PartitionDescription, ...]
    """The partitions in the order of their numbers."""
    may_write: bool | None = None
    """None: the broker does not report it."""


class ClusterDescription(NamedTuple):
    """A cluster as one of its brokers describes it."""

    error_code: int
    cluster_id: str | None
    controller: int | None
    """The broker that takes changes of topics; brokers with KRaft name any broker."""
    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicDescription]


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Ask for the cluster and for topics, which are not created (KIP-430)."""

    topics: tuple[str, ...] | None
    """None: all topics."""
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.METADATA)
        wants = self.topics is not None and version >= _FIRST_WITH_OPERATIONS
        topics = self.topics
        request = schema.MetadataRequest(
            topics=None
            if topics is None
            else tuple(schema.MetadataRequestTopic(name=name) for name in topics),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=wants,
        )
        return encoded(Api.METADATA, version, request)

    def read(self, response: LazyMetadataResponse) -> ClusterDescription:
        """The content of the response. Raises :class:`ProtocolError` if it contradicts itself."""
        return read_response(response.whole(), self._read)

    def _read(self, said: Any) -> ClusterDescription:
        topics = {each.name: _topic(each) for each in said.topics if each.name is not None}
        missing = set(self.topics or ()) - topics.keys()
        if missing:
            raise ProtocolError(f"the response does not mention the topics {sorted(missing)}")
        brokers = (Node(each.node_id, each.host, each.port, each.rack) for each in said.brokers)
        controller = said.controller_id
        return ClusterDescription(
            said.error_code,
            said.cluster_id,
            None if controller < 0 else controller,
            {broker.id: broker for broker in brokers},
            topics,
        )


def _topic(said: Any) -> TopicDescription:
    operations: int = said.topic_authorized_operations
    partitions = sorted((_partition(each) for each in said.partitions), key=lambda each: each[0])
    numbers = {each.partition for each in partitions}
    if len(numbers) < len(partitions) or any(
        not 0 <= each < len(numbers) + _MOST_MISSING for each in numbers
    ):
        raise ProtocolError(
            f"{counted(len(partitions), 'partition')} of topic {said.name!r} with "
            f"{len(numbers)} numbers from {min(numbers)} to {max(numbers)}"
        )
    return TopicDescription(
        said.name,
        said.topic_id,
        said.is_internal,
        said.error_code,
        tuple(partitions),
        None if operations == _UNKNOWN else bool(operations >> _WRITE & 1),
    )


def _partition(said: Any) -> PartitionDescription:
    leader = said.leader_id
    return PartitionDescription(
        said.partition_index,
        None if leader < 0 else leader,
        said.leader_epoch,
        tuple(map(int, said.replica_nodes)),
        tuple(map(int, said.isr_nodes)),
        tuple(map(int, said.offline_replicas or ())),
        said.error_code,
    )
