"""The serializer and the deserializer of JSON, by jsonschema-rs, with a schema in a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, Unpack

from aioproducer.errors import SerializationError
from aioproducer.model.type_parameters import V_co, Value
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.json_validator import (
    JsonValidator,
    as_text,
    as_text_but_decimals,
    title_of,
)
from aioproducer.schema_registry.model import RegisteredSchema
from aioproducer.schema_registry.objects import Objects, shown
from aioproducer.schema_registry.policies import SerializerOptions, checked
from aioproducer.schema_registry.schema_deserializer import Decode, SchemaDeserializer
from aioproducer.schema_registry.schema_serializer import (
    Encode,
    SchemaSerializer,
    SchemaSource,
    SchemaSources,
    Target,
    schema_of,
)
from aioproducer.schema_registry.wire_format import Framed
from aioproducer.serialization import RecordHeaders
from aioproducer.serialization.json_documents import JsonEncoder, decode_json


class JsonSchemaSerializer(SchemaSerializer[Value], Generic[Value]):
    """Validates values with a JSON Schema, and writes them as JSON with the registry's id of the
    schema.

    It accepts the same kinds of values as :class:`AvroSerializer`. Pydantic models and msgspec
    structs provide their own schemas.
    """

    schema_type = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: SchemaSource | Mapping[Any, object] | None = None,
        *,
        to_dict: Callable[[Value], Any] | None = None,
        validate: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            schema: the schema as text, as a mapping, or as a :class:`Schema` with references; or a
                mapping of classes to schemas. None: the schema comes from the registry, or from the
                value's class: a pydantic model, a msgspec struct, or a class with
                ``__json_schema__``.
            to_dict: converts a value to JSON types. By default the conversion depends on the kind
                of value.
            validate: refuse values that do not match the schema.
            options: policies, see :class:`SerializerOptions`.

        Raises:
            ConfigError: options contradict each other, or the schema is invalid.
            MissingExtraError: jsonschema-rs is not installed.
        """
        settings = checked(options)
        needed("jsonschema_rs")
        super().__init__(registry, settings)
        self._to_dict = to_dict
        self._validate = validate
        self._objects = Objects(mode="json", by_alias=True)
        self._sources = SchemaSources("JSON", schema, _class_schema, title_of, settings)

    def _encoder(self, target: Target, key: Hashable, kind: type) -> Encode:
        validator = JsonValidator(target.schema, target.named, target.place)
        name = title_of(target.schema) or target.field
        convert = self._to_dict
        if convert is None and not issubclass(kind, dict | list | tuple):
            convert = self._objects.converter(kind)
        return _encode(target, name, validator if self._validate else None, convert, self._objects)


def _encode(
    target: Target,
    name: str,
    validator: JsonValidator | None,
    convert: Callable[[Any], Any] | None,
    objects: Objects,
) -> Encode:
    prefix, dump = target.prefix, JsonEncoder(lambda _: as_text, refuse_nan=True).encode
    first_dump = dump
    if validator is not None:
        first_dump = JsonEncoder(lambda _: as_text_but_decimals, refuse_nan=True).encode
    is_valid = validator.is_valid if validator is not None else None

    def encode(data: Any, headers: RecordHeaders) -> bytes:
        try:
            value: Any = data if convert is None else convert(data)
            encoded = first_dump(value)  # which also bounds the nesting that the validator sees
            if is_valid is None or is_valid(value):
                return prefix + encoded
        except Exception:
            return again(data)
        return again(data)

    def again(data: Any) -> bytes:
        """Encode with every object converted, or say what does not fit."""
        try:
            value = objects.converted(data if convert is None else convert(data))
            encoded = dump(value)
            plain = json.loads(encoded)  # dates became text
            misfit = validator.misfit(plain, name) if validator is not None else None
        except Exception as error:
            kind = "" if isinstance(error, SerializationError) else f"{type(error).__name__}: "
            raise SerializationError(
                f"{target.place}: {shown(data)} can't be written as JSON: {kind}{str(error)[:300]}"
            ) from error
        if misfit is None:
            return prefix + encoded
        raise SerializationError(
            f"{target.place}: the {target.field} does not fit the schema "
            f"{target.registered.id}: {misfit}"
        )

    return encode


def _class_schema(kind: type) -> Any:
    """The schema that a class has itself; None: it has none."""
    own = getattr(kind, "__json_schema__", None)
    if own is None:
        own = getattr(kind, "model_json_schema", None)
    if own is not None:
        return own() if callable(own) else own
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        return _with_definitions(*msgspec.json.schema_components([kind]), kind)
    return None


def _with_definitions(schemas: Any, components: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The schema of a struct with the definitions of others within it."""
    definitions = dict(components)
    own = definitions.pop(kind.__name__, None) or dict(schemas[0])
    text = json.dumps({**own, "$defs": definitions} if definitions else own)
    text = text.replace('"#/$defs/' + kind.__name__ + '"', '"#"')
    found: dict[str, Any] = json.loads(text)
    return found


class JsonSchemaDeserializer(SchemaDeserializer[V_co], Generic[V_co]):
    """Reads JSON values that were written with a schema registry."""

    schema_type = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: SchemaSource | None = None,
        *,
        from_dict: Callable[[Any], V_co] | None = None,
        validate: bool = True,
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            schema: the reader's schema, which values must match. None: values must match the schema
                with which they were written.
            from_dict: creates the value, for example ``Order.model_validate``.
            validate: refuse values that do not match.

        Raises:
            ConfigError: the schema is invalid.
            MissingExtraError: jsonschema-rs is not installed.
        """
        needed("jsonschema_rs")
        super().__init__(registry)
        self._reader = None if schema is None else schema_of("JSON", schema)
        self._from_dict = from_dict
        self._validate = validate

    async def _decoder(self, registered: RegisteredSchema, framed: Framed) -> Decode:
        from_dict = self._from_dict
        schema = self._reader or registered.schema
        validator: JsonValidator | None = None
        if self._validate:
            validator = JsonValidator(schema, await self._named(schema), f"schema {framed.key}")
        name = title_of(schema) or self._field

        def decode(payload: bytes) -> Any:
            value = decode_json(payload)
            if validator is not None and not validator.is_valid(value):
                raise SerializationError(validator.misfit(value, name) or "it does not fit")
            return value if from_dict is None else from_dict(value)

        return decode
