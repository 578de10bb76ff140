"""Policies: how a serializer finds the registered schema of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from aioproducer.errors import ConfigError
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.model import RegisteredSchema, Schema
from aioproducer.schema_registry.subjects import SubjectNameStrategy, checked_strategy

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
