"""The request that describes a cluster, its topics and the principal's permissions. No I/O."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.network.request import LazyMetadataResponse, SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import ProtocolError
from aioproducer.foundation.logs import counted
from aioproducer.model import Node, has_name

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
class DescribeRequest(SchemaRequest):
    """Ask for the cluster and for topics, which are not created (KIP-430)."""

    topics: tuple[str, ...] | None
    """None: all topics."""
    api = Api.METADATA

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        wants = self.topics is not None and version >= _FIRST_WITH_OPERATIONS
        topics = self.topics
        return schema.MetadataRequest(
            topics=None
            if topics is None
            else tuple(schema.MetadataRequestTopic(name=name) for name in topics),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=wants,
        )

    def read(self, response: LazyMetadataResponse) -> Generator[None, None, ClusterDescription]:
        """The content of the response, read in steps. A step may raise :class:`ProtocolError`: the
        response contradicts itself."""
        return response.steps(self._read(response.pieces()))

    def _read(self, pieces: Iterator[Any]) -> Generator[None, None, ClusterDescription]:
        brokers: dict[int, Node] = {}
        topics: dict[str, TopicDescription] = {}
        partitions: list[PartitionDescription] = []
        whole: Any = None
        for piece in pieces:
            match type(piece).__name__:
                case "MetadataResponseBroker":
                    if has_name(piece.host):
                        node = Node(piece.node_id, piece.host, piece.port, piece.rack)
                        brokers[node.id] = node
                case "MetadataResponsePartition":
                    partitions.append(_partition(piece))
                case "MetadataResponseTopic":
                    if piece.name is not None:
                        topics[piece.name] = _topic(piece, partitions)
                    partitions = []
                case "MetadataResponse":
                    whole = piece
            yield
        missing = set(self.topics or ()) - topics.keys()
        if missing:
            raise ProtocolError(f"the response does not mention the topics {sorted(missing)}")
        controller = whole.controller_id
        return ClusterDescription(
            whole.error_code,
            whole.cluster_id,
            None if controller < 0 else controller,
            brokers,
            topics,
        )


def _topic(said: Any, partitions: list[PartitionDescription]) -> TopicDescription:
    operations: int = said.topic_authorized_operations
    partitions.sort(key=itemgetter(0))
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
