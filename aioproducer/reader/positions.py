"""Positions in a partition as users give them, and the partitions of an assignment. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioproducer.config.kinds import by_duration
from aioproducer.engine.client.arguments import check_partition, checked_topic
from aioproducer.engine.client.requests import EARLIEST, LATEST
from aioproducer.errors import ConfigError
from aioproducer.model import TopicPartition

Position: TypeAlias = int | datetime | Literal["beginning", "end"]
"""An offset (a negative one counts from the end), a time, the beginning or the end."""

Source: TypeAlias = str | tuple[str, int]
"""A topic, which means all of its partitions, or a :class:`TopicPartition`."""

Assignment: TypeAlias = Source | Iterable[Source] | Mapping[TopicPartition, int]
"""The partitions to read; a mapping gives each its own offset, such as ``reader.positions``."""

_OFFSETS_END: Final = 2**63
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Assigned(NamedTuple):
    """A topic or partition of an assignment, with the position at which reading starts."""

    topic: str
    partition: int | None
    """None: all partitions."""
    start: Position


def checked_position(name: str, position: Any) -> Position:
    """``position``, the argument ``name``. Raises :class:`ConfigError` if it is none."""
    if isinstance(position, datetime):
        try:
            position.timestamp()
        except (ValueError, OverflowError, OSError) as error:
            raise ConfigError(f"{name} has no timestamp: {position}, {error}") from error
        return position
    if isinstance(position, int) and not isinstance(position, bool):
        if position >= _OFFSETS_END:
            raise ConfigError(f"{name} is an offset below 2**63, not {position!r:.80}")
        return position
    if isinstance(position, str) and position in ("beginning", "end"):
        return position  # type: ignore[return-value]
    raise ConfigError(
        f"{name} is an offset, a datetime, 'beginning' or 'end', not {position!r:.80}"
    )


def assigned(assignment: Any, start: Position) -> list[Assigned]:
    """The topics and partitions of an assignment, each once.

    Raises ConfigError or InvalidTopicError for one that no reader takes.
    """
    if isinstance(assignment, Mapping):
        starts = [(source, checked_position("a start", at)) for source, at in assignment.items()]
    elif isinstance(assignment, str) or _is_partition(assignment):
        starts = [(assignment, start)]
    elif isinstance(assignment, Iterable) and not isinstance(assignment, bytes):
        starts = [(source, start) for source in assignment]
    else:
        raise ConfigError(
            "the assignment is a topic, a TopicPartition, some of them, or offsets by "
            f"TopicPartition, not {assignment!r:.80}"
        )
    found = {_source(source): at for source, at in starts}
    if not found:
        raise ConfigError("the assignment is empty: name a topic or a TopicPartition")
    whole = {topic for topic, partition in found if partition is None}
    twice = sorted(topic for topic, partition in found if partition is not None and topic in whole)
    if twice:
        raise ConfigError(f"the assignment names the topic {twice[0]!r} and a partition of it")
    return [Assigned(topic, partition, at) for (topic, partition), at in found.items()]


def _is_partition(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and isinstance(source[0], str)
        and isinstance(source[1], int)
    )


def _source(source: Any) -> tuple[str, int | None]:
    if isinstance(source, str):
        return checked_topic(source), None
    if not _is_partition(source):
        raise ConfigError(f"{source!r:.80} is neither a topic nor a TopicPartition")
    check_partition(source[1], checked_topic(source[0]))
    return source[0], source[1]


def reset_position(option: str) -> Position | None:
    """The position that ``auto_offset_reset`` means now; None: none."""
    match option:
        case "none":
            return None
        case "earliest":
            return "beginning"
        case "latest":
            return "end"
    duration = by_duration(option)
    assert duration is not None, option
    now = datetime.now(UTC)
    return max(now - min(duration, now - _EPOCH), _EPOCH)


def timestamp_of(position: Position) -> int | None:
    """The timestamp to look a position up by; None: it is an offset from the beginning."""
    if isinstance(position, datetime):
        return max(int(position.timestamp() * 1000), 0)
    if position == "beginning":
        return EARLIEST
    if position == "end" or position < 0:
        return LATEST
    return None


def offset_of(position: Position, found: int, *, beginning: int, end: int) -> int:
    """The offset that a position means, when the cluster was asked for :func:`timestamp_of` it.

    ``found``: the offset in the response; -1: no record is so late, which means the end.
    """
    if isinstance(position, int):
        return position if position >= 0 else max(end + position, beginning)
    if found < 0:
        return end
    return found
