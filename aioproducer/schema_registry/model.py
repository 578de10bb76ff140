"""Schemas and registered schemas, as plain values; their references, and their rules.

A schema with rules of a data contract is refused, because they are not carried out: a rule may
encrypt a field, transform it, or forbid a record. A record that is written or read without its
rules breaks the contract silently.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from aioproducer.errors import SchemaRegistryError, SerializationError

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
"""The language of a schema, by the registry's name."""
RulePhase: TypeAlias = Literal["migration", "domain", "encoding"]
CompatibilityLevel: TypeAlias = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]
"""The versions of a subject that a new one must be compatible with, and the direction."""
LEVELS: Final[tuple[CompatibilityLevel, ...]] = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema's reference to another one, by subject and version.

    ``name`` is the name used in the referring schema: a full name in Avro, a URI in JSON Schema, an
    import path in Protobuf.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a data contract, as stored in the registry."""

    name: str
    kind: str | None = None
    """``TRANSFORM`` or ``CONDITION``."""
    mode: str | None = None
    """``WRITE``, ``READ``, ``WRITEREAD``, ``UPGRADE``, ``DOWNGRADE`` or ``UPDOWN``."""
    type: str | None = None
    """The kind of the rule's expression: ``CEL``, ``ENCRYPT``, …"""
    phase: RulePhase = "domain"
    """The list of the rule set that contains the rule."""
    disabled: bool = False
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The other fields, in the registry's form: ``doc``, ``tags``, ``params``, ``expr``,
    ``onSuccess``, ``onFailure``."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The text of a schema, with its type, references, metadata and rules.

    The registry's cache treats equal schemas as one, and ``text`` is compared as written.
    """

    text: str
    schema_type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()
    rules: tuple[Rule, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    """``tags``, ``properties`` and ``sensitive`` of a data contract, in the registry's form."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id in the registry.

    ``subject``, ``version`` and ``guid`` are None if the registry's response lacks them.
    """

    id: int
    schema: Schema
    subject: str | None = None
    version: int | None = None
    guid: UUID | None = None


@dataclass(frozen=True, slots=True)
class CompatibilityCheck:
    """The registry's compatibility check of a schema that is not registered."""

    compatible: bool
    messages: tuple[str, ...] = ()
    """The registry's reasons why the schema is incompatible."""


_OF_WRITERS_ALONE: Final = "WRITE"


def refuse_rules_of_writers(schema: Schema, place: str) -> None:
    """Raise SerializationError if ``schema`` has rules; ``place`` names the topic and subject."""
    _refuse(schema, place, lambda rule: True)


def refuse_rules_of_readers(schema: Schema, place: str) -> None:
    """Refuse a schema with rules for readers; a reader need not obey those of writers."""
    _refuse(schema, place, lambda rule: rule.mode != _OF_WRITERS_ALONE)


def _refuse(schema: Schema, place: str, concerns: Callable[[Rule], bool]) -> None:
    rules = [rule for rule in schema.rules if not rule.disabled and concerns(rule)]
    if not rules:
        return
    listed = ", ".join(
        f"{rule.name!r} ({' '.join(filter(None, (rule.phase, rule.type, rule.mode)))})"
        for rule in rules
    )
    raise SerializationError(
        f"{place}: the data contract of the schema has rules, which are not supported: {listed}"
    )


_MOST: Final = 1000


async def referred_schemas(
    schema: Schema, context: str, fetch: Callable[[Reference], Awaitable[Schema]]
) -> dict[str, Schema]:
    """All schemas that ``schema`` needs by the names of their references, each after its own.

    ``context``, ``:.name:`` or empty, is that of references which name none; for those of a
    referred schema, it is the context of that schema's subject. As in Confluent's client, the first
    reference with a name counts.

    Raises:
        SchemaRegistryError: the references form a cycle, or are too many.
    """
    found: dict[str, Schema] = {}
    open_names: dict[str, Schema] = {}
    """Fetched, and their own references are not all found."""
    ways: list[tuple[str, str, Iterator[Reference]]] = [("", context, iter(schema.references))]
    while ways:
        name, context, references = ways[-1]
        reference = next(references, None)
        if reference is None:
            ways.pop()
            if ways:
                found[name] = open_names.pop(name)
            continue
        if reference.name in found:
            continue
        if reference.name in open_names:
            raise SchemaRegistryError(
                f"the references of schemas form a cycle: {' -> '.join(open_names)} ->"
                f" {reference.name}"
            )
        if len(found) + len(open_names) >= _MOST:
            raise SchemaRegistryError(f"a schema refers to more than {_MOST} others")
        qualified = _qualified(reference, context)
        fetched = await fetch(qualified)
        open_names[reference.name] = fetched
        way = reference.name, context_of(qualified.subject), iter(fetched.references)
        ways.append(way)
    return found


def context_of(subject: str) -> str:
    """``:.name:`` at the subject's beginning; empty if it names no context."""
    if not subject.startswith(":.") or (end := subject.find(":", 2)) < 0:
        return ""
    return subject[: end + 1]


def _qualified(reference: Reference, context: str) -> Reference:
    if not context or context_of(reference.subject):
        return reference
    return Reference(reference.name, context + reference.subject, reference.version)
