"""Checks of the arguments of an Admin's calls, done before anything is sent. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from aioproducer.engine.client.arguments import check_partition, checked_topic
from aioproducer.engine.client.list_offsets import EARLIEST, LATEST
from aioproducer.errors import (
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidOffsetError,
    InvalidReplicaAssignmentError,
    KafkaError,
)
from aioproducer.model import TopicPartition

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
