"""DataFrames made ready for a sink: rows in the tasks of their Kafka partitions, encoded columns.

In Spark Classic the JVM computes Kafka's hash of keys, so that no Python worker has to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import (  # type: ignore[attr-defined]
    arrow_udf,
    coalesce,
    col,
    lit,
    pmod,
    xxhash64,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from aioproducer.engine.records.arrow import murmur2_partitions
from aioproducer.errors import ConfigError
from aioproducer.spark.internals import jvm_murmur2
from aioproducer.spark.plan import Option, SinkPlan, option_texts, types_of
from aioproducer.spark.planning import plan_typed_rows
from aioproducer.spark.rows import by_topic
from aioproducer.spark.typed_columns import check_format_names
from aioproducer.spark.worker_start import drop_zip_importers, start_worker

_POSITIVE: Final = 0x7FFFFFFF
"""Source: ``Utils.toPositive`` of Kafka."""


def repartition_by_key(df: DataFrame, partitions: int, tasks: int | None = None) -> DataFrame:
    """Return ``df`` with a column ``partition``, with every Kafka partition in only one task.

    A key goes to the partition that the Java client's default partitioner chooses (murmur2). Rows
    with a null key are distributed by their values. If you set a ``key.format`` later, keys go to
    other partitions than with other clients; use :func:`~aioproducer.spark.encode_columns` first,
    which encodes the keys.

    Args:
        df: with a column ``key`` of strings or bytes, and a column ``value``.
        partitions: the topic's number of partitions. With another number, keys go to other
            partitions than with other clients.
        tasks: the number of tasks; a task takes every ``tasks``-th partition. None: one task per
            partition.

    Raises:
        ConfigError: a column is missing, there is a column ``partition``, or a number is not
            positive.
    """
    tasks = partitions if tasks is None else tasks
    if partitions < 1 or tasks < 1:
        raise ConfigError(f"partitions and tasks must be positive, not {partitions} and {tasks}")
    if "key" not in df.columns:
        raise ConfigError(
            "Required attribute 'key' not found; rows without keys need no more than coalesce()"
        )
    if (kind := types_of(df.schema)["key"]) not in ("string", "binary"):
        raise ConfigError(
            f"key attribute unsupported type {kind}: the bytes of a key decide its partition; "
            "aioproducer.spark.encode_columns() creates them"
        )
    if "value" not in df.columns:
        raise ConfigError("Required attribute 'value' not found")
    if "partition" in df.columns:
        raise ConfigError(
            "there already is a column 'partition': drop it, or put the rows of each partition "
            "into one task with df.repartitionById()"
        )

    # A row goes to the same partition when Spark computes it again.
    spread = pmod(xxhash64("value"), lit(partitions)).cast("int")
    by_key = _partition_of(df, col("key").cast("binary"), partitions)
    placed = df.withColumn("partition", coalesce(by_key, spread))
    return placed.repartitionById(tasks, col("partition"))


def _partition_of(df: DataFrame, key: Column, partitions: int) -> Column:
    """The partition of a binary key; null for a null."""
    hashed = jvm_murmur2(df.sparkSession, key)
    if hashed is not None:
        return pmod(hashed.bitwiseAND(_POSITIVE), lit(partitions))

    @arrow_udf("int")  # type: ignore[call-overload,untyped-decorator,unused-ignore]
    def in_python(keys: pa.Array) -> pa.Array:
        drop_zip_importers()
        return murmur2_partitions(keys, partitions)

    placed: Column = in_python(key)
    return placed


def encode_columns(df: DataFrame, topic: str | None = None, **options: Option) -> DataFrame:
    """Return ``df`` with encoded keys and values: binary columns, which any sink accepts.

    The columns are those of Spark's Kafka sink; others are ignored. The argument ``topic`` takes
    precedence over the column. The options are those of the formats, such as
    ``**{"key.format": "avro", "schema.registry.url": "http://localhost:8081"}``. This call
    registers or fetches the schemas. Python workers encode the rows when they are computed.

    Raises:
        ConfigError: an option or a column is wrong, or a part of a column does not fit the schema.
        SchemaRegistryError: the registry refused a schema, or is unavailable.
    """
    given = option_texts(options)
    check_format_names(given)
    plan = plan_typed_rows(given, df.schema, topic)
    if not plan.encodings:
        raise ConfigError("encode_columns() needs the option 'value.format' or 'key.format'")
    columns = [
        StructField(each.name, BinaryType() if each.name in plan.encodings else each.dataType)
        for each in (df.schema[name] for name in plan.columns)
        if topic is None or each.name != "topic"
    ]
    encode = partial(_encode, plan, [each.name for each in columns])
    return df.select(*plan.columns).mapInArrow(encode, StructType(columns))


def _encode(
    plan: SinkPlan, names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    start_worker()
    for batch in batches:
        for topic, rows in by_topic(batch, plan):
            if "topic" in names:
                rows = rows.append_column("topic", pa.repeat(topic, len(rows)))
            yield rows.select(names)
