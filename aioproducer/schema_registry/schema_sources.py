"""The schemas that a serializer has without the registry: one, one for each class, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeAlias

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.schema_registry.model import Schema, SchemaType
from aioproducer.schema_registry.policies import Settings
from aioproducer.schema_registry.schema_serializer import LocalSchema
from aioproducer.schema_registry.subjects import needs_record_name

SchemaSource: TypeAlias = str | Mapping[str, Any] | list[Any] | Schema
"""A schema as text, as parsed JSON, or as a Schema, which may have references."""

ONLY: Final = None
"""The key of the only schema of a serializer."""


class SchemaSources:
    """Finds the schema for values of a class.

    ``of_class`` gives the schema that a class has itself, ``name_of`` the full name in a schema.
    """

    def __init__(
        self,
        schema_type: SchemaType,
        given: SchemaSource | Mapping[Any, object] | None,
        of_class: Callable[[type], Any],
        name_of: Callable[[Schema], str | None],
        settings: Settings,
    ) -> None:
        self._type = schema_type
        self._of_class = of_class
        self._name_of = name_of
        self._settings = settings
        self._classes: dict[type, Schema] | None = None
        self._only: LocalSchema | None = None
        if isinstance(given, Mapping) and given and all(isinstance(key, type) for key in given):
            classes: Mapping[Any, Any] = given
            self._classes = {key: schema_of(schema_type, each) for key, each in classes.items()}
        elif given is not None:
            self._only = self._named(schema_of(schema_type, given))
        self._refuse_policies()
        self._found: dict[type, LocalSchema] = {}

    def _refuse_policies(self) -> None:
        policy = self._settings.policy
        if self._classes is not None and policy.choice in ("id", "version"):
            raise ConfigError(
                f"use_schema_{policy.choice} needs one schema, not one for each class"
            )
        strategy = self._settings.strategy
        one_subject = not needs_record_name(strategy) and not callable(strategy)
        if self._classes is not None and policy.choice == "latest" and one_subject:
            raise ConfigError(
                "use_latest_version with a schema for each class needs a subject for each: set "
                "subject_name_strategy"
            )

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The keys of all schemas that are known ahead."""
        if self._classes is not None:
            return tuple(self._classes)
        return (ONLY,) if self._single else ()

    @property
    def _single(self) -> bool:
        """True if one schema serves all values."""
        if self._only is not None:
            return True
        policy, strategy = self._settings.policy, self._settings.strategy
        return not policy.writes_own_schema and not (
            needs_record_name(strategy) and policy.choice != "id"
        )

    def key(self, topic: str, kind: type) -> Hashable:
        """The key of the schema for values of a type.

        Raises:
            SerializationError: no schema was given for the type, and it has none itself.
        """
        if self._classes is not None:
            for each in kind.__mro__:
                if each in self._classes:
                    return each
            known = ", ".join(sorted(each.__name__ for each in self._classes)[:10])
            raise SerializationError(
                f"topic {topic!r}: no schema for a {kind.__name__}; there are schemas for {known}"
            )
        if self._single:
            return ONLY
        if self._of_class(kind) is None:
            raise SerializationError(
                f"topic {topic!r}: a {kind.__name__} has no schema: pass one to the serializer, "
                "or set use_latest_version"
            )
        return kind

    def local(self, key: Hashable) -> LocalSchema | None:
        """The schema of a key; None: only the registry has it."""
        if key is ONLY:
            return self._only
        assert isinstance(key, type)
        found = self._found.get(key)
        if found is None:
            if self._classes is not None:
                schema = self._classes[key]
            else:
                schema = schema_of(self._type, self._of_class(key))
            found = self._found[key] = self._named(schema)
        return found

    def _named(self, schema: Schema) -> LocalSchema:
        return LocalSchema(schema, self._name_of(schema))


def schema_of(schema_type: SchemaType, source: Any) -> Schema:
    if isinstance(source, Schema):
        if source.schema_type != schema_type:
            raise ConfigError(f"the schema has the type {source.schema_type}, not {schema_type}")
        return source
    if isinstance(source, str):
        text = source.strip()
        if schema_type == "AVRO" and text.isidentifier():
            text = json.dumps(text)  # "string" is the name of a type, and no JSON
        return Schema(text, schema_type)
    if isinstance(source, Mapping | list | bool):
        try:
            return Schema(json.dumps(source, separators=(",", ":")), schema_type)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"the schema can't be written as JSON: {error}") from error
    raise ConfigError(f"a schema is text, a mapping or a Schema, not {type(source).__name__}")
