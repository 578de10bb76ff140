"""The wire format of registries' serializers: a schema's id before the payload, or in a header.

Source: Confluent's ``SchemaId``, ``PrefixSchemaIdSerializer`` and ``HeaderSchemaIdSerializer``.

::

    prefix   0, 4 bytes id, [message indexes], payload
    header   __value_schema_id = 1, 16 bytes GUID, [message indexes]; the value is the payload

Both places take either form of the id. Only Protobuf has message indexes: the way to the message
type in its file, as zigzag varints after their number; a lone 0 stands for ``[0]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from aioproducer.errors import SerializationError
from aioproducer.foundation.varint import unsigned_varint
from aioproducer.serialization import Field

HEADERS: Final[Mapping[Field, str]] = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The names of the headers that have the id."""

_ID: Final = 0
_GUID: Final = 1
_LARGEST_ID: Final = 0xFFFF_FFFF
_DEEPEST: Final = 100  # levels of nested message types
_VARINT_BYTES: Final = 5  # of an index, which is an int32

ReadHeaders: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None
"""The headers of a record that was read, as any consumer gives them."""


@dataclass(frozen=True, slots=True)
class Framed:
    """A record's payload, and the id of its schema; either ``id`` or ``guid`` is None."""

    payload: bytes
    id: int | None
    guid: UUID | None
    indexes: tuple[int, ...] = ()

    @property
    def key(self) -> int | UUID:
        """The id by which the schema is asked for."""
        if self.id is not None:
            return self.id
        assert self.guid is not None
        return self.guid


def id_bytes(schema_id: int, indexes: Sequence[int] = ()) -> bytes:
    """The id as it stands before a payload. Raises SerializationError if it has no four bytes."""
    if not 0 <= schema_id <= _LARGEST_ID:
        raise SerializationError(f"the schema id {schema_id} does not fit into four bytes")
    return bytes((_ID,)) + schema_id.to_bytes(4) + (index_bytes(indexes) if indexes else b"")


def header_bytes(schema_id: int, guid: UUID | None, indexes: Sequence[int] = ()) -> bytes:
    """The id as it stands in a header: the GUID, or the number where a registry has no GUIDs."""
    if guid is None:
        return id_bytes(schema_id, indexes)
    return bytes((_GUID,)) + guid.bytes + (index_bytes(indexes) if indexes else b"")


def index_bytes(indexes: Sequence[int]) -> bytes:
    """The message indexes of Protobuf."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def unframed(
    topic: str,
    field: Field,
    data: bytes,
    headers: ReadHeaders = None,
    *,
    indexes: bool = False,
) -> Framed:
    """The payload of ``data``, and the id of its schema, from a header or from the prefix.

    ``indexes``: message indexes follow the id. Any bytes that are something else raise
    :class:`SerializationError`, which names the topic and the bytes.
    """
    header = _last(headers, HEADERS[field])
    if header is not None:
        place = f"topic {topic!r}: the header {HEADERS[field]} of a record"
        read = _Read(header, place)
        number, guid = read.id()
        return Framed(data, number, guid, read.indexes() if indexes else ())
    read = _Read(data, f"topic {topic!r}: a {field}")
    number, guid = read.id()
    path = read.indexes() if indexes else ()
    return Framed(data[read.position :], number, guid, path)


def _last(headers: ReadHeaders, name: str) -> bytes | None:
    """The last header of the name, as Java takes it; None: there is none, or it is null."""
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = None
    for key, value in pairs:
        if key == name and value is not None:
            found = value
    return found


def _zigzag(number: int) -> bytes:
    return unsigned_varint((number << 1) ^ (number >> 31))


class _Read:
    """Reads ``data`` from its first byte; ``place`` names it in errors."""

    def __init__(self, data: bytes, place: str) -> None:
        self.data = data
        self.position = 0
        self._place = place

    def id(self) -> tuple[int | None, UUID | None]:
        if not self.data:
            raise self._refused("is empty; expected the id of a schema")
        magic = self.data[0]
        if magic == _ID:
            return int.from_bytes(self._take(4, "a schema's id")), None
        if magic == _GUID:
            return None, UUID(bytes=bytes(self._take(16, "a schema's GUID")))
        raise self._refused(
            f"begins with the byte 0x{magic:02x}; a serializer of a schema registry writes 0x00 or "
            f"0x01 ({len(self.data)} bytes: {bytes(self.data[:12])!r})"
        )

    def _take(self, size: int, what: str) -> bytes:
        self.position = 1 + size
        if len(self.data) < self.position:
            raise self._refused(f"ends within {what}: it has {len(self.data)} bytes")
        return self.data[1 : self.position]

    def indexes(self) -> tuple[int, ...]:
        count = self._varint()
        if count == 0:
            return (0,)
        if not 0 < count <= _DEEPEST:
            raise self._refused(f"claims {count} message indexes; at most {_DEEPEST} are read")
        indexes = tuple(self._varint() for _ in range(count))
        if min(indexes) < 0:
            raise self._refused(f"contains a negative message index: {list(indexes)}")
        return indexes

    def _varint(self) -> int:
        value = 0
        for number in range(_VARINT_BYTES):
            if self.position >= len(self.data):
                raise self._refused("ends within its message indexes")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise self._refused("contains a message index of more than 32 bits")

    def _refused(self, reason: str) -> SerializationError:
        return SerializationError(f"{self._place} {reason}")
