"""Serialization: from keys, values and headers to the bytes of a record.

::

    serializer.py      the protocol of users' serializers; the serializers and headers of a producer
    primitives.py      bytes, text, UUIDs, numbers; the base of the deserializers
    json_documents.py  JSON
    cloud_events.py    CloudEvents

Built-in serializers are imported on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aioproducer.serialization.serializer import (
    Field,
    RecordHeaders,
    SerializeFunction,
    Serializer,
)

if TYPE_CHECKING:
    from aioproducer.serialization.cloud_events import (
        CloudEventDeserializer,
        CloudEventMode,
        CloudEventSerializer,
    )
    from aioproducer.serialization.json_documents import JsonDeserializer, JsonSerializer
    from aioproducer.serialization.primitives import (
        BytesDeserializer,
        BytesSerializer,
        Deserializer,
        DoubleDeserializer,
        DoubleSerializer,
        FloatDeserializer,
        FloatSerializer,
        IntegerDeserializer,
        IntegerSerializer,
        LongDeserializer,
        LongSerializer,
        ShortDeserializer,
        ShortSerializer,
        StringDeserializer,
        StringSerializer,
        UUIDDeserializer,
        UUIDSerializer,
    )

_MODULES = {
    "CloudEventDeserializer": "cloud_events",
    "CloudEventMode": "cloud_events",
    "CloudEventSerializer": "cloud_events",
    "Deserializer": "primitives",
    "JsonDeserializer": "json_documents",
    "JsonSerializer": "json_documents",
    "DoubleDeserializer": "primitives",
    "DoubleSerializer": "primitives",
    "FloatDeserializer": "primitives",
    "FloatSerializer": "primitives",
    "IntegerDeserializer": "primitives",
    "IntegerSerializer": "primitives",
    "LongDeserializer": "primitives",
    "LongSerializer": "primitives",
    "ShortDeserializer": "primitives",
    "ShortSerializer": "primitives",
    "BytesDeserializer": "primitives",
    "BytesSerializer": "primitives",
    "StringDeserializer": "primitives",
    "StringSerializer": "primitives",
    "UUIDDeserializer": "primitives",
    "UUIDSerializer": "primitives",
}
"""The modules of what is built in."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
    return found


__all__ = [
    "BytesDeserializer",
    "BytesSerializer",
    "CloudEventDeserializer",
    "CloudEventMode",
    "CloudEventSerializer",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "LongDeserializer",
    "LongSerializer",
    "ShortDeserializer",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerializer",
    "UUIDDeserializer",
    "UUIDSerializer",
    "Field",
    "RecordHeaders",
    "SerializeFunction",
    "Serializer",
]
