"""What is wrong with the arguments of a call: the same for both shells, and said before anything
changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from aioproducer.errors import (
    ConfigError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    SerializationError,
)
from aioproducer.model import ProducerRecord

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
