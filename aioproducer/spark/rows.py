"""Rows of a DataFrame as what ``send_many()`` takes: one batch of columns for each topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer.errors import SerializationError
from aioproducer.spark.plan import SinkPlan

_SENT: Final = ("value", "key", "partition", "headers")


def by_topic(rows: pa.RecordBatch, plan: SinkPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic in their order, the topics in that of their names.

    Raises:
        SerializationError: a row has no topic.
    """
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


def free_rows(columns: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows have neither a key nor a partition, and so may go anywhere."""
    free = pa.repeat(True, len(columns))
    for name in ("key", "partition"):
        if name in columns.schema.names:
            free = pc.and_(free, columns.column(name).is_null())
    return free


def placed(columns: pa.RecordBatch, rows: pa.BooleanArray, partition: int) -> pa.RecordBatch:
    """``columns`` with ``partition`` for these ``rows``."""
    columns_by_name = dict(zip(columns.schema.names, columns.columns, strict=True))
    there = columns_by_name.get("partition", pa.nulls(len(columns), pa.int32()))
    columns_by_name["partition"] = pc.if_else(rows, pa.scalar(partition, pa.int32()), there)
    return pa.RecordBatch.from_pydict(columns_by_name)
