"""A broker's Metadata response of any version, read into one value.

It is read a piece at a time: with thousands of topics or partitions it takes long.
"""

from collections.abc import Collection, Container, Generator, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from aioproducer.engine.cluster.snapshot import NO_EPOCH, PartitionLeader, TopicInfo
from aioproducer.engine.protocol import Api
from aioproducer.errors import KafkaError, ProtocolError, kafka_error
from aioproducer.errors.broker import error_about
from aioproducer.foundation.logs import counted
from aioproducer.model import Node, PartitionInfo, has_name

_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9
"""Before (Kafka 2.4), a broker may tell an old leader epoch while replicas are reassigned."""

_MOST_MISSING: Final = 1_000
"""The most partitions that a topic may lack: also those without an entry take memory."""

_NO_LEADER: Final = -1


class MetadataNews(NamedTuple):
    """The topics that are known, and those that have an error instead."""

    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicInfo] = {}
    errors: Mapping[str, KafkaError] = {}
    stale: Collection[str] = ()
    """Topics with a partition without a leader, say: the next answer may tell more."""
    details: Mapping[str, tuple[PartitionInfo, ...]] = {}
    """The partitions of topics for which details are wanted."""
    cluster_id: str | None = None
    """The id of the cluster; None: the broker does not tell."""
    error_code: int = 0
    """The error of the response as a whole, which then says nothing else."""


def read_metadata(
    pieces: Iterable[Any], version: int, asked: Container[str], detailed: Collection[str] = ()
) -> Generator[None, None, MetadataNews]:
    """Read the response on the topics ``asked``; each piece is a step.

    A piece is one of Kafka's structs: a broker, a partition, a topic (after its partitions), or at
    last the response itself.

    A partition without a leader keeps its place; a topic is complete or an error. Kafka's -1 for no
    leader ends here. Topics that were not asked for, and brokers without an address, are left out.
    ``detailed``: the topics whose replicas are wanted. Raises :class:`ProtocolError` for numbers
    that nothing can have.
    """
    epochs = version >= _FIRST_VERSION_WITH_RELIABLE_EPOCHS
    brokers: dict[int, Node] = {}
    topics: dict[str, TopicInfo] = {}
    errors: dict[str, KafkaError] = {}
    stale: set[str] = set()
    details: dict[str, tuple[PartitionInfo, ...]] = {}
    partitions = _Partitions(epochs, bool(detailed))
    code, cluster_id = 0, None
    for piece in pieces:
        match type(piece).__name__:
            case "MetadataResponseBroker":
                if has_name(piece.host):
                    node = _node(piece)
                    brokers[node.id] = node
            case "MetadataResponsePartition":
                partitions.add(piece)
            case "MetadataResponseTopic":
                name, done, partitions = (
                    piece.name,
                    partitions,
                    _Partitions(epochs, bool(detailed)),
                )
                if name in asked and piece.error_code:
                    errors[name] = _error(name, piece.error_code)
                elif name in asked and done.leaders:
                    topics[name] = TopicInfo(name, piece.topic_id, done.leaders_of(name))
                    if done.stale:
                        stale.add(name)
                    if name in detailed:
                        details[name] = _details(name, done.told, brokers)
            case "MetadataResponse":
                code, cluster_id = piece.error_code, piece.cluster_id
        yield
    if code:
        return MetadataNews({}, error_code=code)
    return MetadataNews(brokers, topics, errors, stale, details, cluster_id)


class _Partitions:
    """The partitions of one topic, which come before its name."""

    __slots__ = ("_detailed", "_epochs", "_wrong", "leaders", "stale", "told")

    def __init__(self, epochs: bool, detailed: bool) -> None:
        self.leaders: list[PartitionLeader] = []
        self.told: list[Any] = []
        """Empty unless ``detailed``."""
        self.stale = False
        self._epochs = epochs
        self._detailed = detailed
        self._wrong: PartitionLeader | None = None

    def add(self, said: Any) -> None:
        """Add a partition of the next topic."""
        leader = said.leader_id
        epoch = said.leader_epoch if self._epochs else NO_EPOCH
        found = PartitionLeader(said.partition_index, leader, epoch)
        if leader < _NO_LEADER or epoch < NO_EPOCH:
            self._wrong = found
        elif leader == _NO_LEADER:
            found = found._replace(leader=None)
        self.leaders.append(found)
        if self._detailed:
            self.told.append(said)
        self.stale = self.stale or _is_stale(said.error_code)

    def leaders_of(self, topic: str) -> tuple[PartitionLeader, ...]:
        """The leaders by partition. Raises :class:`ProtocolError` for impossible numbers."""
        if self._wrong is not None:
            number, leader, epoch = self._wrong
            raise ProtocolError(
                f"partition {number} of topic {topic!r} with leader {leader}, leader epoch {epoch}"
            )
        told = len(self.leaders)
        if [each.partition for each in self.leaders] == list(range(told)):
            return tuple(self.leaders)
        found = {each.partition: each for each in self.leaders}
        count = max(found) + 1
        if len(found) < told or min(found) < 0 or count - told > _MOST_MISSING:
            raise ProtocolError(
                f"{counted(told, 'partition')} of topic {topic!r} with {len(found)} numbers from "
                f"{min(found)} to {count - 1}"
            )
        return tuple(found.get(index) or PartitionLeader(index, None) for index in range(count))


def _node(said: Any) -> Node:
    if said.node_id < 0:
        raise ProtocolError(f"a broker with id {said.node_id}")
    return Node(said.node_id, said.host, said.port, said.rack)


def _error(topic: str, code: int) -> KafkaError:
    return error_about(f"topic {topic!r}", code, Api.METADATA)


def _is_stale(code: int) -> bool:
    return bool(code) and kafka_error(code, "").refresh_metadata


def _details(
    topic: str, partitions: list[Any], brokers: Mapping[int, Node]
) -> tuple[PartitionInfo, ...]:
    def nodes(numbers: Collection[int]) -> tuple[Node, ...]:
        if min(numbers, default=0) < 0:
            raise ProtocolError(f"a replica of topic {topic!r} on a broker with id {min(numbers)}")
        return tuple(brokers.get(number) or Node(number, "", -1) for number in numbers)

    return tuple(
        PartitionInfo(
            topic,
            said.partition_index,
            brokers.get(said.leader_id),
            nodes(said.replica_nodes),
            nodes(said.isr_nodes),
            nodes(said.offline_replicas or ()),
        )
        for said in sorted(partitions, key=attrgetter("partition_index"))
    )
