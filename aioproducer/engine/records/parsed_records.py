"""The records of a batch that was read: all checked when they are parsed, objects when asked for.

This is the hot path of reading. ``_speedups/parsed_records.pyx`` is the compiled form, and
:mod:`acceleration` chooses between the two. This module is the reference, written to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from aioproducer.engine.records.field_reader import FieldReader, MalformedRecordError
from aioproducer.model import ConsumerRecord

if TYPE_CHECKING:
    from aioproducer.engine.records.decompression import Unpacked
    from aioproducer.engine.records.encoded_batch import EncodedBatch


class ParsedRecords:
    """The records of ``batch`` from ``from_offset`` on, and before ``until_offset`` (None: all).

    ``data``: the uncompressed bytes of all records.

    Raises MalformedRecordError unless all of ``data`` is exactly the records that the header of the
    batch names, with growing offsets within the batch.
    """

    __slots__ = ("_records",)

    def __init__(
        self,
        batch: EncodedBatch,
        data: Unpacked,
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


def _parse(batch: EncodedBatch, data: memoryview) -> Iterator[ConsumerRecord]:
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
