"""The serializer and the deserializer of Avro, by fastavro, with a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from copy import deepcopy
from io import BytesIO
from typing import Any, Final, Generic, Unpack

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model.type_parameters import V_co, Value
from aioproducer.schema_registry.avro_misfits import AvroDiagnosis, suspect_function
from aioproducer.schema_registry.avro_scan import may_do_harm, refuse_harm
from aioproducer.schema_registry.avro_schema import AvroSchema, parsed_schema
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import RegisteredSchema, Schema
from aioproducer.schema_registry.objects import Objects, refuse_deep_nesting, shown
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

_AVRO: Final = "AVRO"


class AvroSerializer(SchemaSerializer[Value], Generic[Value]):
    """Writes values as Avro, with the registry's id of their schema.

    Values are dicts, dataclasses, attrs classes, pydantic models, msgspec structs, objects with a
    method ``to_dict``, or any value of a primitive schema. In a union of records, choose a record
    with a tuple of its full name and a dict; an object chooses the record with the name of its
    class.

    ::

        serializer = AvroSerializer("http://registry:8081", schema)
        Producer(bootstrap_servers="localhost:9092", value_serializer=serializer)
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: SchemaSource | Mapping[Any, object] | None = None,
        *,
        to_dict: Callable[[Value], Any] | None = None,
        strict: bool = False,
        **options: Unpack[SerializerOptions],
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            schema: the schema as text, as a mapping, or as a :class:`Schema` with references. For
                several event types in one topic, a mapping of classes to schemas. None: the schema
                comes from the registry (with ``use_latest_version``, ``use_schema_id`` or
                ``use_schema_version``), or from ``avro_schema()`` or ``__avro_schema__`` of the
                value's class.
            to_dict: converts a value to a dict. By default the conversion depends on the kind of
                value.
            strict: refuse fields that the schema lacks, and missing fields without a default.
                Otherwise the former are omitted, and of the latter nullable fields become null.
            options: policies, see :class:`SerializerOptions`.

        Raises:
            ConfigError: options contradict each other, or the schema is invalid.
            MissingExtraError: fastavro is not installed.
        """
        settings = checked(options)
        needed("fastavro")
        super().__init__(registry, settings)
        self._to_dict = to_dict
        self._strict = strict
        self._sources = SchemaSources(_AVRO, schema, _class_schema, _record_name, settings)

    def _encoder(self, target: Target, key: Hashable, kind: type) -> Encode:
        schema = parsed_schema(target.schema, target.named, target.place)
        return AvroEncoder(target, schema, self._strict).for_type(kind, self._to_dict)


class AvroEncoder:
    """Encodes values by one schema, and says what does not fit."""

    def __init__(self, target: Target, schema: AvroSchema, strict: bool) -> None:
        self._target = target
        self._schema = schema
        self._strict = strict
        self._objects = Objects({} if strict else schema.hints)
        self._suspect = suspect_function(schema)
        self._write = needed("fastavro").schemaless_writer

    def for_type(self, kind: type, to_dict: Callable[[Any], Any] | None) -> Encode:
        """The encoder for values of a type."""
        convert = to_dict
        if convert is None and not issubclass(kind, dict | list | tuple):
            convert = self._objects.converter(kind)
        if self._schema.is_bytes:
            return self._bytes(convert)
        if self._schema.recursive or self._strict:
            return self._careful(convert)
        return self._fast(convert)

    def _fast(self, convert: Callable[[Any], Any] | None) -> Encode:
        """The common case, with as few steps as there are."""
        prefix, parsed = self._target.prefix, self._schema.parsed
        write, suspect, again = self._write, self._suspect, self._again

        def encode(data: Any, headers: RecordHeaders) -> bytes:
            value: Any = data
            try:
                if convert is not None:
                    value = convert(data)
                if suspect is not None and suspect(value):
                    return again(data, value, None)
                buffer = BytesIO()
                buffer.write(prefix)
                write(buffer, parsed, value)
            except SerializationError:
                raise
            except Exception as error:
                return again(data, value, error)
            return buffer.getvalue()

        return encode

    def _careful(self, convert: Callable[[Any], Any] | None) -> Encode:
        """For schemas that contain themselves: fastavro would crash on values nested deeply."""

        def encode(data: Any, headers: RecordHeaders) -> bytes:
            value: Any = data
            try:
                if convert is not None:
                    value = convert(data)
                refuse_deep_nesting(value, self._target.place)
                if self._suspect is None or not self._suspect(value):
                    return self._written(value)
            except SerializationError:
                raise
            except Exception as error:
                return self._again(data, value, error)
            return self._again(data, value, None)

        return encode

    def _bytes(self, convert: Callable[[Any], Any] | None) -> Encode:
        """A schema of only bytes: the value stands there as it is, as Java writes it."""
        prefix = self._target.prefix

        def encode(data: Any, headers: RecordHeaders) -> bytes:
            value = data if convert is None else convert(data)
            if not isinstance(value, bytes | bytearray | memoryview):
                raise SerializationError(
                    f"{self._target.place}: expected bytes, found {shown(value)}"
                )
            return prefix + bytes(value)

        return encode

    def _written(self, value: Any) -> bytes:
        buffer = BytesIO()
        buffer.write(self._target.prefix)
        self._write(buffer, self._schema.parsed, value, strict=self._strict)
        return buffer.getvalue()

    def _again(self, data: Any, value: Any, error: Exception | None) -> bytes:
        """Encode with every object within ``value`` converted, or say what does not fit.

        ``error``: of the first attempt; None: the value was suspect.
        """
        try:
            plain = self._objects.converted(value)
            if self._schema.recursive:
                refuse_deep_nesting(plain, self._target.place)
            if error is not None and (written := self._second_attempt(plain)) is not None:
                return written
            misfit = self._diagnosis().misfit(plain)
            if misfit is None:
                return self._written(plain)
        except SerializationError:
            raise
        except Exception as failure:
            raise SerializationError(
                f"{self._target.place}: {shown(data)} can't be written in Avro: "
                f"{type(failure).__name__}: {str(failure)[:300]}"
            ) from (error or failure)
        raise SerializationError(
            f"{self._target.place}: the {self._target.field} does not fit the schema "
            f"{self._target.registered.id}: {misfit}"
        ) from error

    def _second_attempt(self, plain: Any) -> bytes | None:
        """The bytes, if objects were the reason of the failure; None: they were not."""
        try:
            suspect = self._suspect is not None and self._suspect(plain)
            return None if suspect else self._written(plain)
        except Exception:  # the diagnosis says why
            return None

    def _diagnosis(self) -> AvroDiagnosis:
        schema = self._schema
        return AvroDiagnosis(
            schema.parsed, schema.named, strict=self._strict, name=self._target.field
        )


def _class_schema(kind: type) -> Any:
    """The schema that a class has itself; None: it has none."""
    own = getattr(kind, "__avro_schema__", None)
    if own is None:
        own = getattr(kind, "avro_schema", None)
    return own() if callable(own) else own


def _record_name(schema: Schema) -> str | None:
    """The full name of the schema's record."""
    try:
        tree = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the text of an Avro schema is not JSON: {error}") from error
    if not isinstance(tree, dict):
        return None
    name, namespace = tree.get("name"), tree.get("namespace")
    if not isinstance(name, str):
        kind = tree.get("type")
        return kind if isinstance(kind, str) else None
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
