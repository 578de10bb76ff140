"""Rows of a DataFrame for ``send_many()``: columns by topic, and the partitions of a transaction.

Rows that no broker would take are found before any row of their chunk is sent: rows without a
topic, rows that don't fit their schema, and rows larger than ``max.request.size``.

Each partition of a task in a transaction only takes the rows of one attempt of one task. All tasks
write with one producer id and epoch, each from sequence number 0 on. When Spark runs a task again,
a broker would take a batch with the numbers of an earlier one for a repetition of it, and drop it.
So the first batch of a partition has a number of rows that tells attempts apart: the broker finds
that of another attempt to be out of order, and the write fails, as it must. Spark itself does not
tell when it runs a stage again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.engine.records.arrow import murmur2_partitions
from aioproducer.engine.records.builder import batch_size_bound
from aioproducer.errors import (
    IllegalStateError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition
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


def too_large(columns: pa.RecordBatch, most: int) -> list[tuple[int, RecordTooLargeError]]:
    """The rows of which a batch would have more than ``most`` bytes, by number, with their errors.

    ``columns``: binary keys and values, as they are sent.
    """
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
            found.append((row, RecordTooLargeError(_too_large(size, most))))
    return found


def _longest_headers(column: pa.Array) -> int:
    """More bytes than the headers of any row have."""
    each = column.flatten()
    longest = sum(pc.max(pc.binary_length(part)).as_py() or 0 for part in each.flatten())
    return (pc.max(pc.list_value_length(column)).as_py() or 0) * (longest + _LARGEST_HEADER)


def _too_large(size: int, most: int) -> str:
    return (
        f"a record of {size} bytes is larger than {most} bytes: raise kafka.max.request.size (and "
        "the topic's max.message.bytes, and kafka.buffer.memory), or send smaller records"
    )


def record_headers(row: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a row; those without a name are left out."""
    named = (each for each in row.get("headers") or () if each and each["key"] is not None)
    return tuple((each["key"], each["value"]) for each in named)


def as_bytes(value: Any) -> bytes | None:
    """A key or value; that of a column with a format, which could not be encoded, as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


_LONGEST_START: Final = 61
"""The most rows of a first batch. A prime, as attempts are numbered through all tasks; with fewer
rows, fewer attempts can be told apart."""


class TaskPartitions:
    """The partitions of one attempt of a task.

    ``task``: its number in the write. ``shift``: by how many partitions rows without a key move
    from one write to the next. ``attempt``: a number that no other attempt of any task has.
    """

    def __init__(self, task: int, shift: int, attempt: int) -> None:
        self._task = task
        self._shift = shift
        self._attempt = attempt
        self.begun: set[TopicPartition] = set()
        """The partitions that rows were sent to; what became of them is not known here."""

    def parts(
        self, topic: str, rows: pa.RecordBatch, partitions: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """``rows`` with a partition each, to be sent one part after the other.

        Raises:
            IllegalStateError: rows without a key, and there are more tasks than partitions.
        """
        rows = self._placed(topic, rows, partitions)
        column = rows.column("partition")
        starts = []
        for partition in pc.unique(column).to_pylist():
            place = TopicPartition(topic, partition)
            if place not in self.begun:
                self.begun.add(place)
                its = pc.indices_nonzero(pc.equal(column, partition))
                starts.append(its[: 1 + self._attempt % min(len(its), _LONGEST_START)])
        if starts:
            first = pa.concat_arrays(starts)
            yield rows.take(first)
            rows = rows.filter(pc.invert(pc.is_in(row_numbers(rows), first)))
        if len(rows):
            yield rows

    def _placed(
        self, topic: str, rows: pa.RecordBatch, partitions: Sequence[int]
    ) -> pa.RecordBatch:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        column = columns.get("partition", pa.nulls(len(rows), pa.int32()))
        if column.null_count and "key" in columns:
            column = pc.coalesce(column, murmur2_partitions(columns["key"], len(partitions)))
        if column.null_count:
            column = pc.fill_null(column, pa.scalar(self.free(topic, partitions), pa.int32()))
        return pa.RecordBatch.from_pydict(columns | {"partition": column})

    def free(self, topic: str, partitions: Sequence[int]) -> int:
        """The partition for rows that may go anywhere; no other task takes it for them."""
        count = len(partitions)
        if self._task >= count:
            raise IllegalStateError(
                f"task {self._task} has rows without a key, and {topic!r} has "
                f"{counted(count, 'partition')}. With exactly_once each partition can only get "
                f"rows from one task: use df.coalesce({count})"
            )
        return partitions[(self._task + self._shift) % count]


def row_numbers(rows: pa.RecordBatch) -> pa.Array:
    """The number of each row, from 0 on."""
    return pa.array(range(len(rows)), pa.uint64())
