"""The deserializer of Protobuf messages, with a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.model.type_parameters import V_co
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import RegisteredSchema
from aioproducer.schema_registry.protobuf.schema import MessageNames, message_class
from aioproducer.schema_registry.schema_deserializer import Decode, SchemaDeserializer
from aioproducer.schema_registry.wire_format import Framed


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
