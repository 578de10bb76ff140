"""Kafka's own serializers, as properties name them: by the names of their classes in Java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["JavaSerializer", "java_serializer", "unknown_java_serializer"]

_PACKAGE: Final = "org.apache.kafka.common.serialization."
_PASSING: Final = ("String", "ByteArray", "ByteBuffer", "Bytes")
"""They do what happens without a serializer."""
_BUILT_IN: Final = ("Short", "Integer", "Long", "Float", "Double", "UUID")
_OF_REGISTRIES: Final = {
    "KafkaAvroSerializer": "AvroSerializer",
    "KafkaJsonSchemaSerializer": "JsonSchemaSerializer",
    "KafkaProtobufSerializer": "ProtobufSerializer",
}


@dataclass(frozen=True, slots=True)
class JavaSerializer:
    """One of Kafka's serializers whose counterpart is built in; the producer makes it."""

    name: str
    """The name of both classes, such as ``LongSerializer``."""


def java_serializer(class_name: str) -> JavaSerializer | None:
    """The serializer of a property; None: what it takes needs none.

    Raises KeyError for other classes.
    """
    name = class_name.removeprefix(_PACKAGE)
    kind = name.removesuffix("Serializer")
    if name != class_name and kind != name:
        if kind in _PASSING:
            return None
        if kind in _BUILT_IN:
            return JavaSerializer(name)
    raise KeyError(class_name)


def unknown_java_serializer(class_name: str, keyword: str) -> str:
    """The expected values, in place of ``class_name``."""
    counterpart = _OF_REGISTRIES.get(class_name.rpartition(".")[2])
    if counterpart is not None:
        return (
            f"a class that Python can load: aioproducer.schema_registry.{counterpart} is its "
            f"counterpart; pass one as a keyword: from_properties(…, {keyword}={counterpart}(…))"
        )
    kinds = ", ".join((*_PASSING, *_BUILT_IN[:-1]))
    return (
        f"the class name of Kafka's serializer of {kinds} or {_BUILT_IN[-1]}; pass your own as a "
        f"keyword: from_properties(…, {keyword}=…)"
    )
