"""Send rows to the tasks that own their Kafka partitions."""

from __future__ import annotations

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

from aioproducer.engine.records.arrow import murmur2_partitions
from aioproducer.errors import ConfigError
from aioproducer.spark.jvm_murmur2 import jvm_murmur2
from aioproducer.spark.plan import types_of
from aioproducer.spark.worker_start import start_worker

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
        start_worker()
        return murmur2_partitions(keys, partitions)

    placed: Column = in_python(key)
    return placed
