"""Rows of a DataFrame in the form of ``send_many()``: one batch of columns for each topic."""

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
