"""Serialization: from keys, values and headers to the bytes of a record.

::

    serializer.py          the protocol of users' serializers, and the serializer of one field
    record_serializers.py  the serializers of a producer's keys and values
    plain.py               bytes-like objects and text, which need no serializer
    headers.py             the checks of headers
"""

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

__all__ = [
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
