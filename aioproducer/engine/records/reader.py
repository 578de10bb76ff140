"""A reader of the records that a builder wrote, for other batches and for failed records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.engine.records.field_reader import FieldReader
from aioproducer.model import Header


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
