"""Policies: how a serializer finds the subject and the registered schema of its values.

A subject is the name under which a registry keeps the versions of a schema. Source: Confluent's
``TopicNameStrategy``, ``RecordNameStrategy`` and ``TopicRecordNameStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypedDict, get_args

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.model import RegisteredSchema, Schema
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


Choice: TypeAlias = Literal["register", "lookup", "latest", "id", "version"]
SchemaIdLocation: TypeAlias = Literal["prefix", "header"]


class SerializerOptions(TypedDict, total=False):
    """Options of all schema registry serializers, with Java's names."""

    auto_register_schemas: bool
    """Register the schema (the default). False: the schema must already be registered."""
    use_latest_version: bool
    """Write with the latest version of the subject; fields match by name."""
    use_schema_id: int | None
    """Write with the schema of this id."""
    use_schema_version: int | None
    """Write with this version of the subject."""
    normalize_schemas: bool
    """Ask the registry to compare normalized schemas."""
    subject_name_strategy: SubjectNameStrategy
    """``topic_name`` (the default), ``record_name``, ``topic_record_name``, or a function."""
    schema_id_location: SchemaIdLocation
    """``prefix`` (the default): before the payload. ``header``: in a header of the record."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a serializer, checked."""

    policy: Policy
    strategy: SubjectNameStrategy
    location: SchemaIdLocation


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to the registered schema."""

    choice: Choice
    number: int = 0
    normalize: bool = False

    @property
    def writes_own_schema(self) -> bool:
        """True if values are written by the serializer's schema, not by the registry's."""
        return self.choice in ("register", "lookup")

    async def fetch(
        self, registry: SchemaRegistry, subject: str, schema: Schema | None
    ) -> RegisteredSchema:
        """The registered schema; ``schema`` is the serializer's own."""
        if self.choice == "latest":
            return await registry.latest(subject)
        if self.choice == "version":
            return await registry.version(subject, self.number)
        if self.choice == "id":
            return await registry.by_id(self.number, subject=subject)
        assert schema is not None
        if self.choice == "lookup":
            return await registry.lookup(subject, schema, normalize=self.normalize)
        return await registry.register(subject, schema, normalize=self.normalize)


def checked(options: SerializerOptions) -> Settings:
    """The settings that ``options`` mean. Raises ConfigError if they contradict each other."""
    unknown = sorted(set(options) - set(SerializerOptions.__annotations__))
    if unknown:
        raise ConfigError(f"unknown options of a serializer: {', '.join(unknown)}")
    location = options.get("schema_id_location", "prefix")
    if location not in ("prefix", "header"):
        raise ConfigError(f"schema_id_location: {location!r} is neither 'prefix' nor 'header'")
    strategy = checked_strategy(options.get("subject_name_strategy", "topic_name"))
    return Settings(_policy(options), strategy, location)


def _policy(options: SerializerOptions) -> Policy:
    normalize = options.get("normalize_schemas", False)
    chosen: list[tuple[str, Policy]] = []
    if options.get("use_latest_version"):
        chosen.append(("use_latest_version", Policy("latest")))
    for name, choice in (("use_schema_id", "id"), ("use_schema_version", "version")):
        number = options.get(name)
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ConfigError(f"{name}: {number!r} is not a positive number")
        chosen.append((name, Policy(choice, number)))  # type: ignore[arg-type]
    if options.get("auto_register_schemas"):
        chosen.append(("auto_register_schemas", Policy("register", normalize=normalize)))
    if len(chosen) > 1:
        names = " and ".join(name for name, _ in chosen)
        raise ConfigError(f"{names} contradict each other: choose one")
    if chosen:
        return chosen[0][1]
    if options.get("auto_register_schemas", True):
        return Policy("register", normalize=normalize)
    return Policy("lookup", normalize=normalize)
