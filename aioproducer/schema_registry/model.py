"""Schemas and registered schemas, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

__all__ = [
    "LEVELS",
    "CompatibilityCheck",
    "CompatibilityLevel",
    "Reference",
    "RegisteredSchema",
    "Rule",
    "RulePhase",
    "Schema",
    "SchemaType",
]

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
