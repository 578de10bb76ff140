"""Rules of data contracts: a schema that has some is refused, because they are not carried out.

A rule may encrypt a field, transform it, or forbid a record. A record that is written or read
without its rules breaks the contract silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.model import Rule, Schema

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
