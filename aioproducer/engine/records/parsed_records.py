"""The records of a batch that was read: all checked when they are parsed, objects when asked for.

:func:`arrow_buffers` gives the buffers of their Arrow columns instead. This is the hot path of
reading. ``_speedups.pyx`` is the compiled form, which makes no object for a record of columns;
:mod:`acceleration` chooses. This is the reference, written to be read.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer.engine.records.field_reader import FieldReader, MalformedRecordError
from aioproducer.model import ConsumerRecord

if TYPE_CHECKING:
    from aioproducer.engine.records.encoded_batch import EncodedBatch, Unpacked


class ParsedRecords:
    """The records of ``batch`` from ``from_offset`` on, and before ``until_offset`` (None: all).

    ``data``: the uncompressed bytes of all records.

    Raises MalformedRecordError unless all of ``data`` is exactly the records that the header of the
    batch names, with growing offsets within the batch.
    """

    __slots__ = ("_records",)

    def __init__(
        self,
        batch: "EncodedBatch",
        data: "Unpacked",
        from_offset: int,
        until_offset: int | None = None,
    ) -> None:
        end = batch.next_offset if until_offset is None else until_offset
        self._records = [
            record
            for record in _parse(batch, memoryview(data))
            if from_offset <= record.offset < end
        ]

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> ConsumerRecord:
        return self._records[index]

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)


def _parse(batch: "EncodedBatch", data: memoryview) -> Iterator[ConsumerRecord]:
    """Source: Kafka's ``DefaultRecord.readFrom`` and ``DefaultRecordBatch.RecordIterator``."""
    reader = FieldReader(data)
    last_delta = -1
    append_time = batch.max_timestamp_ms if batch.timestamp_type == "LogAppendTime" else None
    for _ in range(batch.record_count):
        length = reader.varint()
        end = reader.position + length
        if length < 0 or end > len(data):
            raise MalformedRecordError("a record is longer than its batch")
        reader.end = end
        reader.byte()  # attributes: none is in use
        timestamp_ms = _wrapped(batch.base_timestamp_ms + reader.varlong())
        delta = reader.varint()
        if not last_delta < delta <= batch.last_offset_delta:
            raise MalformedRecordError(f"offset {batch.base_offset + delta} is out of order")
        last_delta = delta
        key, value, headers = reader.nullable(), reader.nullable(), reader.headers()
        if reader.position != end:
            raise MalformedRecordError("a record is shorter than its length")
        reader.end = len(data)
        yield ConsumerRecord(
            batch.where.topic,
            batch.where.partition,
            batch.base_offset + delta,
            timestamp_ms if append_time is None else append_time,
            batch.timestamp_type,
            key,
            value,
            headers,
            batch.leader_epoch,
        )
    if batch.record_count and reader.position != len(data):
        raise MalformedRecordError(f"there are bytes behind its {batch.record_count} records")


def _wrapped(timestamp_ms: int) -> int:
    """The sum as Java's 64 bits hold it: a writer's difference may have wrapped, too."""
    return (timestamp_ms + 2**63) % 2**64 - 2**63


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
