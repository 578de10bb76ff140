"""The arguments and results of an Admin's calls. No I/O.

The checks of arguments come first: they are done before anything is sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.engine.client.arguments import check_partition, checked_topic
from aioproducer.engine.client.requests import EARLIEST, LATEST, PartitionDescription
from aioproducer.errors import (
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidOffsetError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
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
    "Setting",
    "Subtract",
    "TopicDescription",
    "by_name",
    "check_broker",
    "check_count",
    "checked_assignment",
    "checked_changes",
    "checked_groups",
    "checked_name",
    "checked_names",
    "checked_offsets",
    "checked_partitions",
    "checked_positions",
    "checked_resource",
    "checked_resources",
    "checked_setting",
    "checked_settings",
    "checked_topics",
]

_LONGEST_TEXT: Final = 2**15 - 1
_ENDS: Final = {"beginning": EARLIEST, "end": LATEST}


def checked_topics(topics: Any) -> tuple[str, ...]:
    """Names of topics, each once; a single str is one name."""
    names = (topics,) if isinstance(topics, str) else topics
    return tuple(dict.fromkeys(checked_topic(name) for name in names))


def checked_groups(groups: Any) -> tuple[str, ...]:
    """Ids of groups, each once; a single str is one id. Raises :class:`InvalidGroupIdError`."""
    listed = (groups,) if isinstance(groups, str) else groups
    for group in listed:
        if not isinstance(group, str) or not group or not _fits(group):
            raise InvalidGroupIdError(
                f"a group's id is a str of 1 to {_LONGEST_TEXT} bytes, not {group!r:.80}"
            )
    return tuple(dict.fromkeys(listed))


def check_count(count: Any, name: str, limit: int, error: type[KafkaError]) -> None:
    """Raise ``error`` unless ``count`` is an int from 1 to below ``limit``."""
    if type(count) is not int or not 1 <= count < limit:
        raise error(f"{name} is an int from 1 to {limit - 1}, not {count!r}")


def checked_assignment(assignment: Any, where: str, first: int = 0) -> dict[int, tuple[int, ...]]:
    """The brokers of the partitions from ``first`` on.

    Raises :class:`InvalidReplicaAssignmentError` if a partition is missing, has no replica, has two
    replicas on one broker, or a broker's id can't be one.
    """
    if not isinstance(assignment, Mapping):
        raise InvalidReplicaAssignmentError(
            f"{where}: an assignment is a mapping of partitions to brokers' ids, as "
            f"assign_replicas() returns it, not {type(assignment).__name__}"
        )
    expected = range(first, first + len(assignment))
    if not assignment or set(assignment) != set(expected):
        raise InvalidReplicaAssignmentError(
            f"{where}: an assignment has each partition from {first} on, not "
            f"{sorted(map(repr, assignment))[:20]}"
        )
    return {
        number: _brokers(assignment[number], f"{where}, partition {number}") for number in expected
    }


def _brokers(brokers: Iterable[Any], where: str) -> tuple[int, ...]:
    ids = tuple(brokers)
    for broker in ids:
        check_broker(broker, where)
    if not ids or len(set(ids)) < len(ids):
        raise InvalidReplicaAssignmentError(
            f"{where}: each partition has at least one replica, on different brokers, not on "
            f"{list(ids)}"
        )
    return ids


def check_broker(broker: Any, where: str) -> None:
    """Raise :class:`InvalidReplicaAssignmentError` unless ``broker`` can be a broker's id."""
    if type(broker) is not int or not 0 <= broker < 2**31:
        raise InvalidReplicaAssignmentError(
            f"{where}: a broker's id is an int from 0 to {2**31 - 1}, not {broker!r}"
        )


def checked_settings(settings: Any, where: str) -> dict[str, str]:
    """Names and values of a configuration as text. Raises :class:`InvalidConfigError`."""
    return {
        checked_name(name, where): checked_setting(value, f"{where}, {name}")
        for name, value in settings.items()
    }


def checked_name(name: Any, where: str) -> str:
    """The name of a configuration's value. Raises :class:`InvalidConfigError`."""
    if not isinstance(name, str) or not name or not _fits(name):
        raise InvalidConfigError(
            f"{where}: a configuration is by names such as 'retention.ms', not {name!r:.80}"
        )
    return str.__str__(name)


def checked_names(names: Any) -> tuple[str, ...] | None:
    """Names of a configuration's values; a single str is one name, None all."""
    if names is None:
        return None
    listed = (names,) if isinstance(names, str) else names
    return tuple(dict.fromkeys(checked_name(name, "names") for name in listed))


def checked_setting(value: Any, where: str) -> str:
    """A value of a configuration as text. Raises :class:`InvalidConfigError`.

    A whole number is written without a point: Kafka reads no other integer, and reads doubles so.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return float.__repr__(value)
    if not isinstance(value, str) or not _fits(value):
        kind = type(value).__name__
        wrong = value if isinstance(value, float) else f"a {kind} or anything longer"
        raise InvalidConfigError(
            f"{where}: a value is a str of at most {_LONGEST_TEXT} bytes or a finite number, not "
            f"{wrong}"
        )
    return str.__str__(value)


def checked_resource(resource: Any) -> str | int:
    """A topic's name or a broker's id."""
    if isinstance(resource, str):
        return checked_topic(resource)
    if type(resource) is not int or not 0 <= resource < 2**31:
        raise InvalidConfigError(
            f"the owner of a configuration is a topic's name or a broker's id, not {resource!r:.80}"
        )
    return resource


def checked_resources(resources: Any) -> tuple[str | int, ...]:
    """Topics and brokers, each once; a single one need not be in a list."""
    listed = (resources,) if isinstance(resources, str | int) else resources
    return tuple(dict.fromkeys(map(checked_resource, listed)))


def checked_offsets(offsets: Any) -> dict[TopicPartition, int]:
    """Offsets by partition; -1 means the end. Raises :class:`InvalidOffsetError`."""
    found: dict[TopicPartition, int] = {}
    for place, offset in offsets.items():
        where = _partition(place)
        if type(offset) is not int or not -1 <= offset < 2**63:
            raise InvalidOffsetError(
                f"{where}: an offset is an int from 0, or -1 (the end), not {offset!r}"
            )
        found[where] = offset
    return found


def checked_partitions(partitions: Any) -> tuple[TopicPartition, ...]:
    """Partitions, each once. Raises :class:`InvalidOffsetError` for anything else."""
    return tuple(dict.fromkeys(map(_partition, partitions)))


def checked_positions(positions: Any) -> dict[TopicPartition, int]:
    """Timestamps to look positions up by, by partition; EARLIEST or LATEST for an end.

    Raises :class:`InvalidOffsetError`.
    """
    return {
        where: _timestamp(where, position)
        for where, position in ((_partition(place), each) for place, each in positions.items())
    }


def _timestamp(where: TopicPartition, position: Any) -> int:
    try:
        if isinstance(position, datetime):
            return max(0, int(position.timestamp() * 1000))
        return _ENDS[position]
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        raise InvalidOffsetError(
            f"{where}: a position is 'beginning', 'end' or a datetime, not {position!r:.80}"
        ) from None


def _partition(place: Any) -> TopicPartition:
    try:
        topic, partition = place
    except (TypeError, ValueError):
        raise InvalidOffsetError(
            f"offsets are by TopicPartition(topic, number), not {place!r:.80}"
        ) from None
    topic = checked_topic(topic)
    check_partition(partition, topic)
    return TopicPartition(topic, partition)


def _fits(text: str) -> bool:
    """True if a request can carry ``text``."""
    try:
        return len(text.encode()) <= _LONGEST_TEXT
    except UnicodeEncodeError:
        return False


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
