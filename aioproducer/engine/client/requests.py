"""The requests that every client makes: metadata, descriptions, offsets by time. No I/O."""

from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network.request import LazyMetadataResponse, SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.logs import counted
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition, has_name


class MetadataRequest(SchemaRequest):
    """Request the brokers and topics. Brokers that create topics create missing ones."""

    api = Api.METADATA

    def __init__(self, asked: Asked, detailed: frozenset[str] = frozenset()) -> None:
        self.asked = asked
        self.detailed = detailed
        """The topics to return with replicas."""

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topic = schema.MetadataRequestTopic
        return schema.MetadataRequest(
            topics=[topic(name=name) for name in sorted(self.asked.topics)],
            allow_auto_topic_creation=True,
        )

    def read(self, response: LazyMetadataResponse) -> Generator[None, None, MetadataNews]:
        """The content of the response, read in steps. A step may raise :class:`ProtocolError`."""
        return response.read(self.asked.topics, self.detailed)


# --- descriptions --------------------------------------------------------------------------------

_FIRST_WITH_OPERATIONS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10
_UNKNOWN: Final = -(2**31)
_MOST_MISSING: Final = 1000
"""The partitions that a description may leave out."""
_READ: Final = 3
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
    may_read: bool | None = None
    """None: the broker does not report it."""

    def why_unknown(self, partition: int) -> str | None:
        """The reason that ``partitions`` lacks ``partition``; None: it has none at all."""
        if not self.partitions:
            return None
        last = self.partitions[-1].partition
        if 0 <= partition < last:
            return "the broker has left it out of the topic's description"
        return f"the topic has the partitions 0 to {last}"


class ClusterDescription(NamedTuple):
    """A cluster as one of its brokers describes it."""

    error_code: int
    cluster_id: str | None
    controller: int | None
    """The broker that takes changes of topics; brokers with KRaft name any broker."""
    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicDescription]

    def leader(self, where: TopicPartition) -> Node | tuple[int, str | None]:
        """The leader of a partition, or the error that it has none: its code, and the reason."""
        topic = self.topics[where.topic]
        if topic.error_code:
            return topic.error_code, None
        place = bisect_left(topic.partitions, (where.partition,))
        for each in topic.partitions[place : place + 1]:
            if each.partition == where.partition:
                leader = None if each.leader is None else self.brokers.get(each.leader)
                return leader or (ErrorCode.LEADER_NOT_AVAILABLE, "check that its brokers are up")
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.why_unknown(where.partition)


class DescribeRequest(SchemaRequest):
    """Ask for the cluster and for topics (KIP-430). ``creates``: brokers that create topics do."""

    api = Api.METADATA

    def __init__(self, topics: tuple[str, ...] | None, *, creates: bool = False) -> None:
        self.topics = topics
        """None: all topics."""
        self.creates = creates

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        wants = self.topics is not None and version >= _FIRST_WITH_OPERATIONS
        topics = self.topics
        return schema.MetadataRequest(
            topics=None
            if topics is None
            else tuple(schema.MetadataRequestTopic(name=name) for name in topics),
            allow_auto_topic_creation=self.creates,
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
        _may(_WRITE, operations),
        _may(_READ, operations),
    )


def _may(operation: int, operations: int) -> bool | None:
    """True if ``operation`` is in the set ``operations``; None: the broker does not report it."""
    return None if operations == _UNKNOWN else bool(operations >> operation & 1)


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


# --- offsets by time -----------------------------------------------------------------------------

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's timestamps that mean the first offset, and the end of the partition."""

_CLIENT: Final = -1
"""The replica id of a client."""


class IsolationLevel(IntEnum):
    """Kafka's numbers of the isolation levels."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    """A partition's response."""

    error_code: int
    offset: int
    """-1: no record is so late."""
    timestamp_ms: int
    """The time of the record at ``offset``; -1 for an end."""
    leader_epoch: int
    """-1: unknown."""


class ListOffsetsRequest(SchemaRequest):
    """Ask the leader of ``partitions`` for the first offset at or after each timestamp.

    ``partitions``: milliseconds since the epoch, :data:`EARLIEST` or :data:`LATEST`. With
    ``READ_COMMITTED`` the latest offset is the last stable one. ``timeout_ms``: the time that the
    leader has to look in tiered storage.
    """

    api = Api.LIST_OFFSETS

    def __init__(
        self,
        partitions: Mapping[TopicPartition, int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: int = 30_000,
    ) -> None:
        self.partitions = partitions
        self.isolation = isolation
        self.timeout_ms = timeout_ms

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topics: dict[str, list[Any]] = {}
        for (topic, partition), timestamp in self.partitions.items():
            topics.setdefault(topic, []).append(
                schema.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            )
        return schema.ListOffsetsRequest(
            replica_id=_CLIENT,
            isolation_level=int(self.isolation),
            topics=tuple(
                schema.ListOffsetsTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
            timeout_ms=self.timeout_ms,
        )

    def read(self, response: Any) -> Mapping[TopicPartition, FoundOffset]:
        """The content of the response. Raises :class:`ProtocolError` if a partition is missing."""
        found = {
            TopicPartition(topic.name, each.partition_index): FoundOffset(
                each.error_code,
                each.offset,
                each.timestamp,
                each.leader_epoch,
            )
            for topic in response.topics
            for each in topic.partitions
        }
        missing = self.partitions.keys() - found.keys()
        if missing:
            raise ProtocolError(
                f"the response does not mention {', '.join(map(str, sorted(missing)))}"
            )
        return {partition: found[partition] for partition in self.partitions}


NO_PRODUCER_ID: Final = -1


class Response(NamedTuple):
    """The content of a coordinator's response."""

    error_code: int = 0
    """The deciding error code, if the response is about several partitions."""
    message: str | None = None
    """The broker's own words."""
    partition: TopicPartition | None = None
    """The partition of the error code."""
    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    node: Node | None = None
    """The coordinator that was looked for."""
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = {}
    """The offsets of the partitions for which the group has one."""


class CoordinatorType(IntEnum):
    """Kafka's numbers of the kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """The coordinator of a group, or of a transactional id."""

    type: CoordinatorType
    key: str


_FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4


class CoordinatorLookup(SchemaRequest):
    """Find the broker that is the coordinator; any broker knows."""

    api = Api.FIND_COORDINATOR

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        kind, key = self.coordinator
        several = version >= _FIRST_VERSION_WITH_SEVERAL_KEYS
        keys: dict[str, Any] = {"coordinator_keys": (key,)} if several else {"key": key}
        return schema.FindCoordinatorRequest(key_type=kind, **keys)

    def read(self, response: Any) -> Response:
        """The coordinator's address, or an error code.

        Raises :class:`ProtocolError` if it is about another key, or is no address.
        """
        key = self.coordinator.key
        found = response
        if response.coordinators is not None:
            found = next((each for each in response.coordinators if each.key == key), None)
        if found is None:
            raise ProtocolError(f"the response does not mention the coordinator of {key!r}")
        code, message = found.error_code, found.error_message
        if code:
            return Response(code, message)
        node = Node(found.node_id, found.host, found.port)
        if node.id < 0 or not has_name(node.host):
            raise ProtocolError(
                f"broker {node.id} at host {node.host!r} can't be the coordinator of {key!r}"
            )
        return Response(message=message, node=node)


# --- permissions ---------------------------------------------------------------------------------

_FIRST_WITH_OPERATIONS_OF_A_GROUP: Final = 3
_LAST_WITH_NEW_GROUPS: Final = 5


class GroupPermission(SchemaRequest):
    """Ask a group's coordinator if this principal may commit the group's offsets (KIP-430)."""

    api = Api.DESCRIBE_GROUPS

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def chosen_version(self, version: int) -> int:
        """Later versions do not tell of groups that do not exist (KIP-1043)."""
        return min(version, _LAST_WITH_NEW_GROUPS)

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        wants = version >= _FIRST_WITH_OPERATIONS_OF_A_GROUP
        more = {"include_authorized_operations": True} if wants else {}
        return schema.DescribeGroupsRequest(groups=(self.group_id,), **more)

    def read(self, response: Any) -> int:
        """The error code: GROUP_AUTHORIZATION_FAILED if it may not. Old brokers do not tell."""
        for each in response.groups:
            if each.group_id == self.group_id:
                if not each.error_code and _may(_READ, each.authorized_operations) is False:
                    return ErrorCode.GROUP_AUTHORIZATION_FAILED
                return int(each.error_code)
        raise ProtocolError(f"a description of other groups than {self.group_id!r}")


class TransactionalIdPermission(SchemaRequest):
    """Ask a coordinator if this principal may write with a transactional id.

    An AddOffsetsToTxn without a producer id changes nothing: a coordinator refuses it, with
    INVALID_PRODUCER_ID_MAPPING, after it has looked at the permissions.
    """

    api = Api.ADD_OFFSETS_TO_TXN

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            group_id=self.transactional_id,
        )

    def read(self, response: Any) -> int:
        """The error code."""
        return int(response.error_code)
