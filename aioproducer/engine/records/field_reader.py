"""The fields of records, read from bytes that may be anything, and the records of a builder.

Sources: Kafka's ``ByteUtils.readVarint``, ``ByteUtils.readVarlong``, ``DefaultRecord.readFrom``.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.model import Header


class MalformedRecordError(ValueError):
    """The bytes are no record of Kafka's; the message says why. It does not leave ``records``."""


class FieldReader:
    """Reads one field after another, and never beyond ``end``. Raises MalformedRecordError."""

    __slots__ = ("_data", "end", "position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0
        self.end = len(data)

    def byte(self) -> int:
        """The next byte."""
        if self.position >= self.end:
            raise MalformedRecordError("a record ends in the middle of a field")
        self.position += 1
        return self._data[self.position - 1]

    def varint(self) -> int:
        """A signed 32-bit number of one to five bytes."""
        return self._zigzag(32)

    def varlong(self) -> int:
        """A signed 64-bit number of one to ten bytes."""
        return self._zigzag(64)

    def nullable(self) -> bytes | None:
        """Bytes after their length; None: the length is negative."""
        size = self.varint()
        return None if size < 0 else self.take(size)

    def text(self) -> str:
        """Text after its length. As Kafka's clients do, bytes that are not UTF-8 become U+FFFD."""
        size = self.varint()
        if size < 0:
            raise MalformedRecordError("a header has no key")
        return self.take(size).decode("utf-8", "replace")

    def headers(self) -> tuple[Header, ...]:
        """The headers of a record after their count, duplicates of a key included."""
        count = self.varint()
        if not 0 <= count <= (self.end - self.position) // 2:
            raise MalformedRecordError(f"a record can't have {count} headers")
        return tuple((self.text(), self.nullable()) for _ in range(count))

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        begin = self.position
        if size > self.end - begin:
            raise MalformedRecordError("a field is longer than its record")
        self.position = begin + size
        return bytes(self._data[begin : begin + size])

    def _zigzag(self, bits: int) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise MalformedRecordError("a number is too long")
        if number >> bits:
            raise MalformedRecordError("a number is too large")
        return (number >> 1) ^ -(number & 1)


class WrittenRecord(NamedTuple):
    """A record as it was appended."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_records(builder: RecordsBuilder) -> Iterator[WrittenRecord]:
    """The records of ``builder``, in order."""
    return read_written(builder.records, builder.base_timestamp_ms, builder.count)


def read_written(
    records: memoryview, base_timestamp_ms: int, count: int
) -> Iterator[WrittenRecord]:
    """The records in the bytes of a builder, in order."""
    reader = FieldReader(records)
    for _ in range(count):
        reader.varint()  # the record's length
        reader.byte()  # attributes
        timestamp_ms = base_timestamp_ms + reader.varlong()
        reader.varint()  # offset
        key, value = reader.nullable(), reader.nullable()
        yield WrittenRecord(timestamp_ms, key, value, reader.headers())
