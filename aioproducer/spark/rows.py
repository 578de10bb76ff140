"""Rows of a DataFrame for ``send_many()``: columns by topic, and the partitions of a transaction.

Each partition of a task in a transaction only takes the rows of one attempt of one task. All tasks
write with one producer id and epoch, each from sequence number 0 on. When Spark runs a task again,
a broker would take a batch with the numbers of an earlier one for a repetition of it, and drop it.
So the first batch of a partition has a number of rows that tells attempts apart: the broker finds
that of another attempt to be out of order, and the write fails, as it must. Spark itself does not
tell when it runs a stage again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.engine.records.arrow import murmur2_partitions
from aioproducer.errors import IllegalStateError, SerializationError
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition
from aioproducer.spark.plan import SinkPlan

_SENT: Final = ("value", "key", "partition", "headers")


def by_topic(rows: pa.RecordBatch, plan: SinkPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic in their order, the topics in that of their names.

    Keys and values that have a format are encoded.

    Raises:
        SerializationError: a row has no topic, or does not fit its schema.
    """
    for topic, columns in _parted(rows, plan):
        for name, encoding in plan.encodings.items():
            place = columns.schema.get_field_index(name)
            records = encoding.encoded(columns.column(place), topic)
            columns = columns.set_column(place, name, records)
        yield topic, columns


def _parted(rows: pa.RecordBatch, plan: SinkPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    columns = rows.select([name for name in _SENT if name in plan.columns])
    if plan.topic is not None:
        yield plan.topic, columns
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise SerializationError(
            "The Kafka message data sent to the producer contains a null topic. Use the `topic` "
            "option for setting a default topic."
        )
    names = sorted(pc.unique(topics).to_pylist())
    for name in names:
        yield name, columns if len(names) == 1 else columns.filter(pc.equal(topics, name))


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
            rows = rows.filter(pc.invert(pc.is_in(_numbers(rows), first)))
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
            column = pc.fill_null(column, pa.scalar(self._free(topic, partitions), pa.int32()))
        return pa.RecordBatch.from_pydict(columns | {"partition": column})

    def _free(self, topic: str, partitions: Sequence[int]) -> int:
        """The partition for rows that may go anywhere; no other task takes it for them."""
        count = len(partitions)
        if self._task >= count:
            raise IllegalStateError(
                f"task {self._task} has rows without a key, and {topic!r} has "
                f"{counted(count, 'partition')}. With exactly_once each partition can only get "
                f"rows from one task: use df.coalesce({count})"
            )
        return partitions[(self._task + self._shift) % count]


def _numbers(rows: pa.RecordBatch) -> pa.Array:
    return pa.array(range(len(rows)), pa.uint64())
