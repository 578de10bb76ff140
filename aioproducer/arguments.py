"""What is wrong with the arguments of a call: the same for both shells, and said before anything
changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aioproducer.errors import (
    ConfigError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    SerializationError,
)
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
)

LONGEST_TOPIC: Final = 249


def checked_topic(topic: Any) -> str:
    """``topic`` as a plain str; a member of a StrEnum will do."""
    if isinstance(topic, str):
        name = str.__str__(topic)
        if 0 < len(name) <= LONGEST_TOPIC and name.isascii():
            return name
        shown = f"{name!r:.80}"
    else:
        shown = f"of type {type(topic).__name__}"
    raise InvalidTopicError(
        f"a topic is a str of 1 to {LONGEST_TOPIC} ASCII characters, not {shown}"
    )


def check_partition(partition: Any, topic: str) -> None:
    """Raise :class:`InvalidPartitionError` unless it can be one."""
    if type(partition) is not int or partition < 0:
        raise InvalidPartitionError(
            f"a partition is an int from 0, not {partition!r} (topic {topic!r})"
        )


def check_timestamp(timestamp_ms: Any, topic: str) -> None:
    """Raise :class:`InvalidTimestampError` unless it can be one."""
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 2**63:
        raise InvalidTimestampError(
            f"timestamp_ms is an int, milliseconds since the epoch, not {timestamp_ms!r} "
            f"(topic {topic!r})"
        )


def check_timeout(timeout: Any) -> None:
    """Raise :class:`ConfigError` unless it is a number of seconds, or None."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise ConfigError(f"a timeout is a number of seconds from 0, or None, not {timeout!r}")


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Consumed offsets, as clients of Kafka have them.

    A mapping of ``(topic, partition)`` to an offset, or to ``(offset, metadata, ...)``; or an
    iterable of objects with ``topic``, ``partition`` and ``offset``. Raises
    :class:`InvalidOffsetError`.
    """
    if isinstance(offsets, Mapping):
        return {_place(place): _offset(place, each) for place, each in offsets.items()}
    try:
        listed = list(offsets)
    except TypeError:
        raise InvalidOffsetError(
            "offsets are a mapping of TopicPartition to the next offset to read, not "
            f"{type(offsets).__name__}"
        ) from None
    return {_place(each): _offset(each, getattr(each, "offset", None)) for each in listed}


def _place(place: Any) -> TopicPartition:
    if isinstance(place, tuple) and len(place) == 2:
        topic, partition = place
    else:
        topic, partition = getattr(place, "topic", None), getattr(place, "partition", None)
    if not isinstance(topic, str) or type(partition) is not int or partition < 0:
        raise InvalidOffsetError(
            f"offsets are by topic and partition: TopicPartition(topic, number), not {place!r}"
        )
    return TopicPartition(checked_topic(topic), partition)


def _offset(place: Any, given: Any) -> OffsetAndMetadata:
    said = tuple(given) if isinstance(given, tuple) else (given,)
    epoch = getattr(given, "leader_epoch", said[2] if len(said) > 2 else None)
    known = OffsetAndMetadata(said[0], (said[1] if len(said) > 1 else None) or "", epoch)
    if type(known.offset) is not int or not 0 <= known.offset < 2**63:
        raise InvalidOffsetError(
            f"{place}: an offset is an int from 0, the next one to read, not {known.offset!r}"
        )
    if not isinstance(known.metadata, str):
        raise InvalidOffsetError(f"{place}: an offset's metadata is a str, not {known.metadata!r}")
    return known


def checked_group(group: Any) -> ConsumerGroupMetadata:
    """The consumer: its group's id, or an object that also has generation and member id."""
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    found = ConsumerGroupMetadata(
        getattr(group, "group_id", None) or "",
        getattr(group, "generation_id", -1),
        getattr(group, "member_id", ""),
        getattr(group, "group_instance_id", None),
    )
    if not isinstance(found.group_id, str) or not found.group_id:
        raise InvalidOffsetError(
            "the consumer group is its id, or a ConsumerGroupMetadata (another client's "
            f"will do if it has group_id, generation_id and member_id), not {group!r}"
        )
    return found


def only_argument(record: ProducerRecord, *others: object) -> tuple[Any, ...]:
    """The fields of ``record``; raises :class:`SerializationError` if another argument is there."""
    if any(other is not None for other in others):
        raise SerializationError(
            "a ProducerRecord is the only argument of send(): it carries value, key, "
            "partition, headers and timestamp_ms itself"
        )
    return record.fields()


def one_by_one(values: Any, kinds: str) -> Iterable[Any]:
    """An iterator over the values of ``send_many()``; ``kinds``: what it takes, for messages."""
    if isinstance(values, str | bytes | bytearray | memoryview):
        raise SerializationError(
            f"send_many() takes values one by one from an iterable, and a single "
            f"{type(values).__name__} is none of values: use send(), or put it into a list"
        )
    try:
        iterator: Iterable[Any] = iter(values)
    except TypeError:
        raise SerializationError(
            f"send_many() takes {kinds} of values, not {type(values).__name__}"
        ) from None
    return iterator
