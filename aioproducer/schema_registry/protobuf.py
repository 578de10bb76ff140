"""The serializer and the deserializer of Protobuf messages, with a schema registry."""

from __future__ import annotations

from base64 import standard_b64encode
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Generic, Unpack

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model.type_parameters import V_co, Value
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.json_validator import as_text
from aioproducer.schema_registry.model import Reference, RegisteredSchema, Schema
from aioproducer.schema_registry.objects import Objects, shown
from aioproducer.schema_registry.policies import SerializerOptions, checked
from aioproducer.schema_registry.protobuf_schema import (
    MessageNames,
    is_built_in,
    message_class,
    message_indexes,
    schema_text,
)
from aioproducer.schema_registry.schema_deserializer import Decode, SchemaDeserializer
from aioproducer.schema_registry.schema_serializer import (
    Encode,
    LocalSchema,
    SchemaSerializer,
    Target,
)
from aioproducer.schema_registry.wire_format import Framed
from aioproducer.serialization import RecordHeaders

_DEEPEST: Final = 100  # messages within messages


class ProtobufSerializer(SchemaSerializer[Value], Generic[Value]):
    """Writes Protobuf messages, with the registry's id of their schema and the message's index in
    it.

    Files that a message's file imports are registered as references, with their paths as subjects.
    Files of Google and Confluent are not registered, because every client knows them.
    """

    schema_type = "PROTOBUF"

    def __init__(
        self,
        registry: SchemaRegistry | str,
        message_type: type[Value] | Sequence[type[Value]] | None = None,
        **options: Unpack[SerializerOptions],
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            message_type: the generated class of the messages, or several classes. With a single
                class you can also send dicts and objects, which are converted by Protobuf's JSON
                mapping. None: every message brings its own class, whose schema is fetched with the
                first message.
            options: policies, see :class:`SerializerOptions`.

        Raises:
            ConfigError: options contradict each other, or a class is not a message class.
            MissingExtraError: protobuf is not installed.
        """
        settings = checked(options)
        needed("google.protobuf.message_factory")
        super().__init__(registry, settings)
        self._types = _types(message_type)

    def _known(self) -> tuple[Hashable, ...]:
        return self._types

    def _key(self, topic: str, kind: type) -> Hashable:
        if kind in self._types or (not self._types and hasattr(kind, "DESCRIPTOR")):
            return kind
        if len(self._types) == 1 and not hasattr(kind, "DESCRIPTOR"):
            return self._types[0]
        known = ", ".join(each.__name__ for each in self._types) or "any Protobuf message"
        raise SerializationError(
            f"topic {topic!r}: expected {known}, found an object of type {kind.__name__}"
        )

    def _local(self, key: Hashable) -> LocalSchema | None:
        message = _descriptor(key)
        return LocalSchema(Schema(schema_text(message.file), "PROTOBUF"), message.full_name)

    async def _completed(self, local: LocalSchema, key: Hashable) -> Schema:
        references = await self._references(_descriptor(key).file, {})
        return Schema(local.schema.text, "PROTOBUF", references)

    async def _references(self, file: Any, known: dict[str, Reference]) -> tuple[Reference, ...]:
        """The files that ``file`` imports, registered or looked up; ``known`` already are."""
        found = []
        policy = self._settings.policy
        for each in file.dependencies:
            if is_built_in(each.name):
                continue
            if each.name not in known:
                references = await self._references(each, known)
                schema = Schema(schema_text(each), "PROTOBUF", references)
                made = await policy.fetch(self._registry, each.name, schema)
                if made.version is None:
                    made = await self._registry.lookup(
                        each.name, schema, normalize=policy.normalize
                    )
                known[each.name] = Reference(each.name, each.name, made.version or 1)
            found.append(known[each.name])
        return tuple(found)

    def _framing(self, target: Target, key: Hashable) -> tuple[int, ...]:
        message = _descriptor(key)
        policy = self._settings.policy
        if policy.writes_own_schema:
            return message_indexes(message, normalized=policy.normalize)
        return MessageNames(target.schema, target.place).indexes(message.full_name)

    def _encoder(self, target: Target, key: Hashable, kind: type) -> Encode:
        prefix = target.prefix

        def encode(data: Any, headers: RecordHeaders) -> bytes:
            try:
                encoded: bytes = data.SerializeToString()
            except Exception as error:  # a required field of proto2, text that is no UTF-8
                raise _misfit(target, data, error) from error
            return prefix + encoded

        return encode if kind is key else self._from_objects(target, key, encode)

    def _from_objects(self, target: Target, key: Hashable, encode: Encode) -> Encode:
        """For dicts and objects, by Protobuf's mapping of JSON."""
        parse = needed("google.protobuf.json_format").ParseDict
        objects = Objects(by_alias=True)

        def encode_object(data: Any, headers: RecordHeaders) -> bytes:
            try:
                message = key()  # type: ignore[operator]
                parse(_in_json(objects.converted(data)), message, max_recursion_depth=_DEEPEST)
            except Exception as error:
                raise _misfit(target, data, error) from error
            return encode(message, headers)

        return encode_object


def _types(given: Any) -> tuple[type, ...]:
    if given is None:
        return ()
    types = tuple(given) if isinstance(given, Sequence) else (given,)
    for each in types:
        if not hasattr(each, "DESCRIPTOR") or not hasattr(each, "FromString"):
            raise ConfigError(f"message_type: {each!r} is not a generated message class")
    return types


def _descriptor(key: Hashable) -> Any:
    return key.DESCRIPTOR  # type: ignore[attr-defined]


def _in_json(value: Any) -> Any:
    """A converted value in Protobuf's mapping of JSON: bytes in base64, dates and UUIDs as text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _in_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return standard_b64encode(value).decode("ascii")
    return as_text(value)


def _misfit(target: Target, data: Any, error: Exception) -> SerializationError:
    return SerializationError(
        f"{target.place}: the {target.field} does not fit the message "
        f"({type(error).__name__}: {' '.join(str(error).split())[:300]}), found {shown(data)}"
    )


class ProtobufDeserializer(SchemaDeserializer[V_co], Generic[V_co]):
    """Reads Protobuf messages that were written with a schema registry."""

    schema_type = "PROTOBUF"
    _indexed = True

    def __init__(
        self,
        registry: SchemaRegistry | str,
        message_type: type[V_co] | Sequence[type[V_co]] | None = None,
    ) -> None:
        """Nothing is fetched yet.

        Args:
            registry: a :class:`SchemaRegistry`, or the registry's address.
            message_type: the generated class of the messages, or several classes, one per message
                type. Messages with another name are refused; the package can differ. None: classes
                are created from the registry's descriptors, if it has them.

        Raises:
            ConfigError: a class is not a message class.
            MissingExtraError: protobuf is not installed.
        """
        needed("google.protobuf.message_factory")
        super().__init__(registry)
        types = message_type if isinstance(message_type, Sequence) else (message_type,)
        self._types: tuple[Any, ...] = () if message_type is None else tuple(types)
        for each in self._types:
            if not hasattr(each, "FromString"):
                raise ConfigError(f"message_type: {each!r} is not a generated message class")

    async def _decoder(self, registered: RegisteredSchema, framed: Framed) -> Decode:
        place = f"schema {framed.key}"
        name = MessageNames(registered.schema, place).name(framed.indexes)
        if self._types:
            found = self._class(name, place)
        else:
            named = await self._named(registered.schema)
            found = message_class(registered.schema, named, name, place)
        decode: Decode = found.FromString
        return decode

    def _class(self, name: str, place: str) -> Any:
        """The class for the message ``name``: of its full name, or only of its name."""
        simple = name.rpartition(".")[2]
        for each in self._types:
            if each.DESCRIPTOR.full_name == name:
                return each
        for each in self._types:
            if each.DESCRIPTOR.name == simple:
                return each
        known = ", ".join(each.DESCRIPTOR.full_name for each in self._types)
        raise SerializationError(f"{place}: its message is {name}, expected {known}")
