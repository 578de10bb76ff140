"""The arguments and results of an Admin's calls. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.admin.arguments import (
    check_count,
    checked_assignment,
    checked_name,
    checked_resource,
    checked_setting,
    checked_settings,
)
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.client.describe_request import PartitionDescription
from aioproducer.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
)
from aioproducer.model import Node, TopicPartition

__all__ = [
    "Append",
    "BrokerDescription",
    "CheckedChange",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogPosition",
    "NewTopic",
    "PartitionDescription",
    "PartitionLag",
    "Subtract",
    "TopicDescription",
]

LogPosition: TypeAlias = datetime | Literal["beginning", "end"]
"""A place in the log of a partition: the beginning, the end, or the first record at or after a time
(the end if there is none). A time without a zone is local."""

Setting: TypeAlias = str | int | float
"""A configuration value. True is sent as ``true``, and a whole float as an integer."""

ConfigResource: TypeAlias = str | int
"""The resource of a configuration: a topic by its name, or a broker by its id."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, with numbers or with an assignment of replicas.

    Raises:
        InvalidTopicError: brokers do not accept this topic name.
        InvalidPartitionsError, InvalidReplicationFactorError: a number is below 1.
        InvalidReplicaAssignmentError: the assignment contradicts itself or the numbers.
        InvalidConfigError: a name or value of the configuration is not text.
    """

    name: str
    partitions: int | None = None
    """Omit it to use the brokers' ``num.partitions``."""
    replication_factor: int | None = None
    """Omit it to use the brokers' ``default.replication.factor``."""
    assignment: Mapping[int, Sequence[int]] | None = None
    """The ids of the brokers with each partition's replicas, the preferred leader first, as
    returned by :func:`assign_replicas`. It replaces both numbers."""
    configs: Mapping[str, Setting] = field(default_factory=dict)
    """Configuration values, such as ``{"retention.ms": 3_600_000}``. Omit a value to use the
    broker's default."""

    def __post_init__(self) -> None:
        name = checked_topic(self.name)
        where = f"topic {name!r}"
        if self.partitions is not None:
            of_partitions = f"{where}: partitions"
            check_count(self.partitions, of_partitions, 2**31, InvalidPartitionsError)
        if self.replication_factor is not None:
            of_replicas = f"{where}: replication_factor"
            check_count(self.replication_factor, of_replicas, 2**15, InvalidReplicationFactorError)
        if self.assignment is not None:
            if (self.partitions, self.replication_factor) != (None, None):
                raise InvalidReplicaAssignmentError(
                    f"{where}: an assignment says how many partitions and replicas there are; "
                    "leave out partitions and replication_factor"
                )
            object.__setattr__(self, "assignment", checked_assignment(self.assignment, where))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "configs", checked_settings(self.configs, where))


class ConfigEntry(NamedTuple):
    """A configuration value. Source: Kafka's ``ConfigEntry``."""

    name: str
    value: str | None
    """None for a sensitive value, which brokers don't reveal."""
    source: str
    """The level at which it was set: ``DYNAMIC_TOPIC_CONFIG``, ``STATIC_BROKER_CONFIG``,
    ``DEFAULT_CONFIG`` and so on."""
    read_only: bool = False
    sensitive: bool = False

    @property
    def is_default(self) -> bool:
        """True if the value was not set."""
        return self.source == "DEFAULT_CONFIG"


class Append(NamedTuple):
    """A value to add to a list, such as ``cleanup.policy``."""

    value: str


class Subtract(NamedTuple):
    """A value to remove from a list."""

    value: str


ConfigChange: TypeAlias = Setting | Append | Subtract | None
"""A new value, a change of a list, or None to restore the default."""
CheckedChange: TypeAlias = str | Append | Subtract | None
"""The same, with the value as text."""


def checked_changes(changes: Any) -> dict[ConfigResource, dict[str, CheckedChange]]:
    """Changes of configurations, with values as text. Raises :class:`InvalidConfigError`."""
    return {
        checked_resource(resource): {
            checked_name(name, f"{resource!r}"): _change(change, f"{resource!r}, {name}")
            for name, change in some.items()
        }
        for resource, some in changes.items()
    }


def _change(change: Any, where: str) -> CheckedChange:
    match change:
        case None:
            return None
        case Append(value) | Subtract(value):
            return type(change)(checked_setting(value, where))
        case _:
            return checked_setting(change, where)


def by_name(topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    """New topics by name. Raises :class:`InvalidTopicError` if one is named twice."""
    named: dict[str, NewTopic] = {}
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise InvalidTopicError(
                f"create_topics() takes NewTopic objects, not {type(topic).__name__}"
            )
        if topic.name in named:
            raise InvalidTopicError(f"topic {topic.name!r} is named twice")
        named[topic.name] = topic
    return named


class CreatedTopic(NamedTuple):
    """The response to the creation of a topic. Brokers before Kafka 2.4 return only the name."""

    name: str
    topic_id: UUID | None
    """The topic's id; None from brokers before Kafka 2.8. Meaningless if the topic was only
    validated."""
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, ConfigEntry] | None
    """The complete configuration; None without the permission DESCRIBE_CONFIGS."""


class TopicDescription(NamedTuple):
    """A topic, as described by a broker."""

    name: str
    topic_id: UUID | None
    """None from brokers before Kafka 2.8."""
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    """The partitions by number. Brokers are identified by id."""
    configs: Mapping[str, ConfigEntry] | None = None
    """None unless requested."""


class BrokerDescription(NamedTuple):
    """A broker of a cluster."""

    id: int
    host: str
    port: int
    rack: str | None
    versions: Mapping[str, tuple[int, int]] | None = None
    """The lowest and highest supported version of each request that this client uses; None unless
    requested."""


class ClusterDescription(NamedTuple):
    """A cluster, as described by its brokers."""

    cluster_id: str | None
    controller: int | None
    """The id of the controller. With KRaft it can be any broker, because brokers forward
    requests."""
    brokers: tuple[BrokerDescription, ...]
    """The brokers by id."""
    features: Mapping[str, int]
    """The features that the whole cluster supports (KIP-584), such as ``metadata.version``."""

    @property
    def racks(self) -> dict[int, str | None]:
        """The brokers' racks by id, for :func:`assign_replicas`."""
        return {broker.id: broker.rack for broker in self.brokers}


class GroupListing(NamedTuple):
    """A group in the list of a cluster's groups."""

    group_id: str
    protocol_type: str
    """``consumer``, ``connect`` and so on; empty for a group with offsets but no members."""
    state: str | None
    """``Stable``, ``Empty`` and so on; None from brokers before Kafka 2.6."""
    type: str | None
    """``classic``, ``consumer`` (KIP-848) and so on; None from brokers before Kafka 3.8."""


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    """The ``group.instance.id`` of a static member."""
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None
    """The assigned partitions; None for members that are not consumers."""


class GroupDescription(NamedTuple):
    """A group and its members."""

    group_id: str
    type: str
    """``classic`` or ``consumer`` (KIP-848)."""
    state: str
    protocol_type: str
    assignor: str
    """The name of the assignment strategy; can be empty."""
    members: tuple[GroupMember, ...]
    coordinator: Node | None = None
    """The coordinator of the group."""


class PartitionLag(NamedTuple):
    """The lag of a group in a partition."""

    committed: int
    """The offset of the next record that the group will read."""
    end: int | None
    """The offset after the last record; None: the partition no longer exists."""

    @property
    def lag(self) -> int | None:
        """The difference between the two; None without an end."""
        return None if self.end is None else max(0, self.end - self.committed)
