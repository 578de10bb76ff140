"""The deserializer of JSON with a schema in a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from aioproducer.errors import SerializationError
from aioproducer.model.type_parameters import V_co
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.json_schema.schema import JsonValidator, title_of
from aioproducer.schema_registry.model import RegisteredSchema
from aioproducer.schema_registry.schema_deserializer import Decode, SchemaDeserializer
from aioproducer.schema_registry.schema_sources import SchemaSource, schema_of
from aioproducer.schema_registry.wire_format import Framed
from aioproducer.serialization.json_documents import decode_json


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
