"""Serialization: from keys, values and headers to the bytes of a record.

::

    serializer.py          the protocol of users' serializers, and the serializer of one field
    record_serializers.py  the serializers of a producer's keys and values
    plain.py               bytes-like objects and text, which need no serializer
    headers.py             the checks of headers
    deserializer.py        the base of the deserializers
    json_text.py           JSON text by orjson or by the standard library
    numeric.py, text.py, raw_bytes.py, json_documents.py, cloud_events.py
                           the serializers that are built in, and their deserializers

What is built in is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aioproducer.serialization.headers import SharedHeaders, checked_headers, shared_headers
from aioproducer.serialization.plain import plain_bytes
from aioproducer.serialization.record_serializers import RecordSerializers
from aioproducer.serialization.serializer import (
    Field,
    FieldSerializer,
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
    from aioproducer.serialization.deserializer import Deserializer
    from aioproducer.serialization.json_documents import JsonDeserializer, JsonSerializer
    from aioproducer.serialization.numeric import (
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
    )
    from aioproducer.serialization.raw_bytes import BytesDeserializer, BytesSerializer
    from aioproducer.serialization.text import (
        StringDeserializer,
        StringSerializer,
        UUIDDeserializer,
        UUIDSerializer,
    )

_MODULES = {
    "CloudEventDeserializer": "cloud_events",
    "CloudEventMode": "cloud_events",
    "CloudEventSerializer": "cloud_events",
    "Deserializer": "deserializer",
    "JsonDeserializer": "json_documents",
    "JsonSerializer": "json_documents",
    "DoubleDeserializer": "numeric",
    "DoubleSerializer": "numeric",
    "FloatDeserializer": "numeric",
    "FloatSerializer": "numeric",
    "IntegerDeserializer": "numeric",
    "IntegerSerializer": "numeric",
    "LongDeserializer": "numeric",
    "LongSerializer": "numeric",
    "ShortDeserializer": "numeric",
    "ShortSerializer": "numeric",
    "BytesDeserializer": "raw_bytes",
    "BytesSerializer": "raw_bytes",
    "StringDeserializer": "text",
    "StringSerializer": "text",
    "UUIDDeserializer": "text",
    "UUIDSerializer": "text",
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
    "FieldSerializer",
    "RecordHeaders",
    "RecordSerializers",
    "SerializeFunction",
    "Serializer",
    "SharedHeaders",
    "checked_headers",
    "plain_bytes",
    "shared_headers",
]
