"""The subject of a schema: the name under which a registry keeps its versions.

Source: Confluent's ``TopicNameStrategy``, ``RecordNameStrategy`` and ``TopicRecordNameStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.serialization import Field

SubjectName: TypeAlias = Literal["topic_name", "record_name", "topic_record_name"]
SubjectNameStrategy: TypeAlias = SubjectName | Callable[[str, Field, str | None], str]
"""A name, or a function of the topic, ``"key"`` or ``"value"``, and the record's full name."""

_NAMES: Final[tuple[str, ...]] = get_args(SubjectName)


def checked_strategy(strategy: SubjectNameStrategy) -> SubjectNameStrategy:
    """``strategy``; raises ConfigError if it is neither a known name nor a function."""
    if callable(strategy) or strategy in _NAMES:
        return strategy
    raise ConfigError(
        f"subject_name_strategy: {strategy!r} is neither a function nor one of {', '.join(_NAMES)}"
    )


def needs_record_name(strategy: SubjectNameStrategy) -> bool:
    """True if no subject is known before the record's name is."""
    return strategy in ("record_name", "topic_record_name")


def subject_name(
    strategy: SubjectNameStrategy, topic: str, field: Field, record_name: str | None
) -> str:
    """The subject for a record's key or value.

    Raises:
        SerializationError: the strategy needs the name of the record, and the schema has none.
    """
    if strategy == "topic_name":
        return f"{topic}-{field}"
    if callable(strategy):
        return strategy(topic, field, record_name)
    if not record_name:
        raise SerializationError(
            f"topic {topic!r}: the subject name strategy {strategy!r} needs a record name, but "
            f"the schema of the {field} has none"
        )
    return record_name if strategy == "record_name" else f"{topic}-{record_name}"
