"""The deserializer of Avro, with a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from io import BytesIO
from typing import Any, Generic

from aioproducer.model.type_parameters import V_co
from aioproducer.schema_registry.avro.scan import may_do_harm, refuse_harm
from aioproducer.schema_registry.avro.schema import AvroSchema, parsed_schema
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import RegisteredSchema
from aioproducer.schema_registry.schema_deserializer import Decode, SchemaDeserializer
from aioproducer.schema_registry.schema_sources import SchemaSource, schema_of
from aioproducer.schema_registry.wire_format import Framed


class AvroDeserializer(SchemaDeserializer[V_co], Generic[V_co]):
    """Reads Avro values. Records become dicts, or the results of ``from_dict``.

    ::

        deserializer = AvroDeserializer("http://registry:8081")
        order = await deserializer.deserialize(record.topic, record.value, record.headers)
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: SchemaSource | None = None,
        *,
        from_dict: Callable[[Any], V_co] | None = None,
        return_record_name: bool = False,
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            schema: the reader's schema: values of other versions get its fields and defaults. None:
                values keep the fields with which they were written.
            from_dict: creates the value from a dict, for example ``lambda fields:
                Order(**fields)``.
            return_record_name: return a record in a union of records as a tuple of its full name
                and its dict.

        Raises:
            ConfigError: the schema is invalid.
            MissingExtraError: fastavro is not installed.
        """
        self._read = needed("fastavro").schemaless_reader
        super().__init__(registry)
        self._reader = None if schema is None else schema_of("AVRO", schema)
        self._from_dict = from_dict
        self._record_names = return_record_name

    async def _decoder(self, registered: RegisteredSchema, framed: Framed) -> Decode:
        place = f"schema {framed.key}"
        writer = parsed_schema(registered.schema, await self._named(registered.schema), place)
        reader = None
        if self._reader is not None:
            named = await self._named(self._reader)
            reader = parsed_schema(self._reader, named, "the reader's schema")
        return self._decode_by(writer, reader)

    def _decode_by(self, writer: AvroSchema, reader: AvroSchema | None) -> Decode:
        read, from_dict, names = self._read, self._from_dict, self._record_names
        parsed, wanted = writer.parsed, reader.parsed if reader is not None else None
        careful = may_do_harm(writer, skips=wanted is not None)
        shared = reader.mutable_defaults if reader is not None else {}

        def decode(payload: bytes) -> Any:
            if careful:
                refuse_harm(writer, payload, skips=wanted is not None)
            value = read(BytesIO(payload), parsed, wanted, names)
            if shared:
                value = _with_own_defaults(value, shared)
            return value if from_dict is None else from_dict(value)

        def decode_bytes(payload: bytes) -> Any:
            return payload if from_dict is None else from_dict(payload)

        return decode_bytes if writer.is_bytes else decode


def _with_own_defaults(value: Any, shared: Mapping[int, Any]) -> Any:
    """``value`` with copies of the reader's defaults, which the application may change."""
    if id(value) in shared:
        return deepcopy(value)
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, dict | list | tuple):
                value[name] = _with_own_defaults(each, shared)
    elif isinstance(value, list):
        value[:] = [_with_own_defaults(each, shared) for each in value]
    elif isinstance(value, tuple):
        return tuple(_with_own_defaults(each, shared) for each in value)
    return value
