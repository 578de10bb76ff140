"""The buffers of Arrow columns of records that were read.

``_speedups/arrow_columns.pyx`` is the compiled form, which makes no object for a record, and
:mod:`acceleration` chooses between the two. This module is the reference, written to be read.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from aioproducer.engine.records.parsed_records import ParsedRecords

NO_TIMESTAMP: Final = -1
"""The timestamp of a record that has none. Source: Kafka's ``RecordBatch.NO_TIMESTAMP``."""
COLUMN_TOO_LARGE: Final = "a column of Arrow can't have 2 GiB: take fewer batches together"
_MOST_BYTES: Final = 2**31 - 1
"""The most bytes, or rows, of a column of Arrow with offsets of 32 bits."""


class BinaryBuffers(NamedTuple):
    """The buffers of an Arrow column of bytes or text."""

    validity: bytes | None
    """None: no item is null."""
    offsets: bytes
    data: bytes


class ArrowBuffers(NamedTuple):
    """The buffers of Arrow columns, as ``pyarrow.Array.from_buffers`` takes them."""

    rows: int
    key: BinaryBuffers
    value: BinaryBuffers
    header_offsets: bytes
    """The first item of each row's headers, and after them the number of all items."""
    header_count: int
    header_key: BinaryBuffers
    header_value: BinaryBuffers
    timestamp_validity: bytes | None
    """A record without a timestamp is null."""
    timestamp: bytes
    partition: bytes
    offset: bytes


def arrow_buffers(parts: Sequence[ParsedRecords]) -> ArrowBuffers:
    """The columns of the records of ``parts``, one after another.

    Raises OverflowError if a column would have 2 GiB.
    """
    records = [record for part in parts for record in part]
    items = [item for record in records for item in record.headers]
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record.headers))
    timestamps = [record.timestamp_ms for record in records]
    return ArrowBuffers(
        len(records),
        _binary([record.key for record in records]),
        _binary([record.value for record in records]),
        _int32(ends),
        len(items),
        _binary([key.encode() for key, _ in items]),
        _binary([value for _, value in items]),
        _validity([timestamp != NO_TIMESTAMP for timestamp in timestamps]),
        array("q", timestamps).tobytes(),
        _int32([record.partition for record in records]),
        array("q", [record.offset for record in records]).tobytes(),
    )


def _binary(items: Sequence[bytes | None]) -> BinaryBuffers:
    ends = [0]
    for item in items:
        ends.append(ends[-1] + len(item or b""))
    if max(ends[-1], len(items)) > _MOST_BYTES:
        raise OverflowError(COLUMN_TOO_LARGE)
    data = b"".join(item for item in items if item)
    return BinaryBuffers(_validity([item is not None for item in items]), _int32(ends), data)


def _validity(valid: Sequence[bool]) -> bytes | None:
    if all(valid):
        return None
    bits = bytearray((len(valid) + 7) // 8)
    for place, is_valid in enumerate(valid):
        bits[place >> 3] |= is_valid << (place & 7)
    return bytes(bits)


def _int32(numbers: Sequence[int]) -> bytes:
    return array("i", numbers).tobytes()
