"""A reader of the records that a builder wrote, for writing them into other batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aioproducer.model import Header
from aioproducer.records.builder import RecordsBuilder


class WrittenRecord(NamedTuple):
    """A record as it was appended."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_records(builder: RecordsBuilder) -> Iterator[WrittenRecord]:
    """The records of ``builder``, in order."""
    reader = _Reader(builder.records)
    for _ in range(builder.count):
        reader.varint()  # the record's length
        reader.position += 1  # attributes
        timestamp_ms = builder.base_timestamp_ms + reader.varint()
        reader.varint()  # offset
        key, value = reader.nullable(), reader.nullable()
        headers = tuple((reader.text(), reader.nullable()) for _ in range(reader.varint()))
        yield WrittenRecord(timestamp_ms, key, value, headers)


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7

    def nullable(self) -> bytes | None:
        size = self.varint()
        if size < 0:
            return None
        self.position += size
        return bytes(self._data[self.position - size : self.position])

    def text(self) -> str:
        return (self.nullable() or b"").decode()
