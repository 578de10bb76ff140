"""A broker's Metadata response of any version, read into one value.

It is read a piece at a time: with thousands of topics or partitions it takes long.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aioproducer.engine.cluster.snapshot import NO_EPOCH, PartitionLeader, TopicInfo
from aioproducer.errors import KafkaError, ProtocolError, error_about, kafka_error
from aioproducer.foundation.wording import counted
from aioproducer.model import Node, PartitionInfo

_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9
"""Before (Kafka 2.4), a broker may tell an old leader epoch while replicas are reassigned."""

_MOST_MISSING: Final = 1_000
"""The most partitions that a topic may lack: also those without an entry take memory."""

_NO_LEADER: Final = -1


class Piece(NamedTuple):
    """A broker, a partition, a topic (after its partitions), or at last the response itself."""

    kind: str
    """The name of Kafka's struct, such as ``MetadataResponseTopic``."""
    fields: Mapping[str, Any]
    """The fields that its version has, without its lists of structs."""


@dataclass(frozen=True, slots=True)
class MetadataNews:
    """The topics that are known, and those that have an error instead."""

    brokers: Mapping[int, Node]
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)
    stale: Collection[str] = ()
    """Topics with a partition without a leader, say: the next answer may tell more."""
    details: Mapping[str, tuple[PartitionInfo, ...]] = field(default_factory=dict)
    """The partitions of topics for which details are wanted."""
    cluster_id: str | None = None
    """The id of the cluster; None: the broker does not tell."""
    error_code: int = 0
    """The error of the response as a whole, which then says nothing else."""


def read_metadata(
    pieces: Iterable[Piece], version: int, asked: Container[str], detailed: Collection[str] = ()
) -> Generator[None, None, MetadataNews]:
    """Read the response on the topics ``asked``; each piece is a step.

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
    for kind, fields in pieces:
        match kind:
            case "MetadataResponseBroker":
                if fields["host"]:
                    node = _node(fields)
                    brokers[node.id] = node
            case "MetadataResponsePartition":
                partitions.add(fields)
            case "MetadataResponseTopic":
                name, done, partitions = (
                    fields["name"],
                    partitions,
                    _Partitions(epochs, bool(detailed)),
                )
                if name in asked and fields["error_code"]:
                    errors[name] = _error(name, fields["error_code"])
                elif name in asked and done.leaders:
                    topics[name] = TopicInfo(name, fields.get("topic_id"), done.leaders_of(name))
                    if done.stale:
                        stale.add(name)
                    if name in detailed:
                        details[name] = _details(name, done.fields, brokers)
            case "MetadataResponse":
                code = fields.get("error_code", 0)
                cluster_id = fields.get("cluster_id")
        yield
    if code:
        return MetadataNews({}, error_code=code)
    return MetadataNews(brokers, topics, errors, stale, details, cluster_id)


class _Partitions:
    """The partitions of one topic, which come before its name."""

    __slots__ = ("_detailed", "_epochs", "_wrong", "fields", "leaders", "stale")

    def __init__(self, epochs: bool, detailed: bool) -> None:
        self.leaders: list[PartitionLeader] = []
        self.fields: list[Mapping[str, Any]] = []
        """Empty unless ``detailed``."""
        self.stale = False
        self._epochs = epochs
        self._detailed = detailed
        self._wrong: PartitionLeader | None = None

    def add(self, fields: Mapping[str, Any]) -> None:
        """Add a partition of the next topic."""
        leader = fields["leader_id"]
        epoch = fields["leader_epoch"] if self._epochs else NO_EPOCH
        found = PartitionLeader(fields["partition_index"], leader, epoch)
        if leader < _NO_LEADER or epoch < NO_EPOCH:
            self._wrong = found
        elif leader == _NO_LEADER:
            found = found._replace(leader=None)
        self.leaders.append(found)
        if self._detailed:
            self.fields.append(fields)
        self.stale = self.stale or _is_stale(fields)

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


def _node(fields: Mapping[str, Any]) -> Node:
    if fields["node_id"] < 0:
        raise ProtocolError(f"a broker with id {fields['node_id']}")
    return Node(fields["node_id"], fields["host"], fields["port"], fields["rack"])


def _error(topic: str, code: int) -> KafkaError:
    return error_about(f"topic {topic!r}", code)


def _is_stale(fields: Mapping[str, Any]) -> bool:
    code = fields["error_code"]
    return bool(code) and kafka_error(code, "").refresh_metadata


def _details(
    topic: str, partitions: list[Mapping[str, Any]], brokers: Mapping[int, Node]
) -> tuple[PartitionInfo, ...]:
    def nodes(numbers: Collection[int]) -> tuple[Node, ...]:
        if min(numbers, default=0) < 0:
            raise ProtocolError(f"a replica of topic {topic!r} on a broker with id {min(numbers)}")
        return tuple(brokers.get(number) or Node(number, "", -1) for number in numbers)

    return tuple(
        PartitionInfo(
            topic,
            fields["partition_index"],
            brokers.get(fields["leader_id"]),
            nodes(fields["replica_nodes"]),
            nodes(fields["isr_nodes"]),
            nodes(fields.get("offline_replicas", ())),
        )
        for fields in sorted(partitions, key=lambda each: int(each["partition_index"]))
    )
