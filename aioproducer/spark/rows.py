"""Rows of a DataFrame for ``send_many()``: columns by topic.

Rows that no broker would take are found before any row of their chunk is sent: rows without a
topic, rows that don't fit their schema, and rows larger than ``max.request.size``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.engine.accumulator import AccumulatorSettings
from aioproducer.engine.records.builder import batch_size_bound
from aioproducer.errors import (
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.spark.plan import SinkPlan
from aioproducer.spark.typed_columns import ColumnEncoding

_SENT: Final = ("value", "key", "partition", "headers")
NO_TOPIC: Final = (
    "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
    "setting a default topic."
)


def sent_names(plan: SinkPlan) -> list[str]:
    """The columns of which records are made."""
    return [name for name in _SENT if name in plan.columns]


def by_topic(rows: pa.RecordBatch, plan: SinkPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic in their order, the topics in that of their names.

    Keys and values that have a format are encoded.

    Raises:
        SerializationError: a row has no topic, or does not fit its schema.
    """
    for topic, columns in parted(rows, plan):
        for encoding in plan.encodings.values():
            columns = encoded(columns, encoding, topic)
        yield topic, columns


def encoded(columns: pa.RecordBatch, encoding: ColumnEncoding, topic: str) -> pa.RecordBatch:
    """``columns`` with the bytes of one that has a format."""
    place = columns.schema.get_field_index(encoding.column)
    records = encoding.encoded(columns.column(place), topic)
    return columns.set_column(place, encoding.column, records)


def parted(rows: pa.RecordBatch, plan: SinkPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, not encoded. Raises :class:`SerializationError` without a topic."""
    columns = rows.select(sent_names(plan))
    if plan.topic is not None:
        yield plan.topic, columns
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise SerializationError(NO_TOPIC)
    names = sorted(pc.unique(topics).to_pylist())
    for name in names:
        yield name, columns if len(names) == 1 else columns.filter(pc.equal(topics, name))


_LARGEST_HEADER: Final = 10
"""The bytes of a header beside its key and value: their lengths."""


def too_large(
    columns: pa.RecordBatch, topic: str, settings: AccumulatorSettings
) -> list[tuple[int, RecordTooLargeError]]:
    """The rows that a producer with ``settings`` would refuse, by number, with their errors.

    ``columns``: binary keys and values, as they are sent.
    """
    most = settings.largest_batch
    sizes = pc.coalesce(pc.binary_length(columns.column("value")), 0)
    if "key" in columns.schema.names:
        sizes = pc.add(sizes, pc.coalesce(pc.binary_length(columns.column("key")), 0))
    bound = most - batch_size_bound(None, None, ())
    if "headers" in columns.schema.names:
        bound -= _longest_headers(columns.column("headers"))
    found = []
    for row in pc.indices_nonzero(pc.greater(sizes, bound)).to_pylist():
        fields = {name: columns.column(name)[row].as_py() for name in columns.schema.names}
        headers = record_headers(fields)
        key, value = (as_bytes(fields.get(name)) for name in ("key", "value"))
        if (size := batch_size_bound(key, value, headers)) > most:
            found.append((row, settings.too_large(topic, size, spelled=_in_spark)))
    return found


def _longest_headers(column: pa.Array) -> int:
    """More bytes than the headers of any row have."""
    each = column.flatten()
    longest = sum(pc.max(pc.binary_length(part)).as_py() or 0 for part in each.flatten())
    return (pc.max(pc.list_value_length(column)).as_py() or 0) * (longest + _LARGEST_HEADER)


def _in_spark(option: str) -> str:
    """The name of a producer's option among those of a write."""
    return f"kafka.{option.replace('_', '.')}"


def record_headers(row: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a row; those without a name are left out."""
    named = (each for each in row.get("headers") or () if each and each["key"] is not None)
    return tuple((each["key"], each["value"]) for each in named)


def as_bytes(value: Any) -> bytes | None:
    """A key or value; that of a column with a format, which could not be encoded, as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def row_numbers(rows: pa.RecordBatch) -> pa.Array:
    """The number of each row, from 0 on."""
    return pa.array(range(len(rows)), pa.uint64())
