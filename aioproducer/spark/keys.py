"""Rows to the tasks that own their Kafka partitions."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]

from aioproducer.errors import ConfigError
from aioproducer.partitioning import murmur2_partition


def repartition_by_key(df: DataFrame, partitions: int, tasks: int | None = None) -> DataFrame:
    """``df`` with a column ``partition``, and each Kafka partition in one task alone.

    A key goes where the Java client's default partitioner puts it (murmur2); rows whose key is null
    are spread. A column ``partition`` that is there is replaced.

    Args:
        df: with a column ``key`` of strings or bytes.
        partitions: how many the topic has.
        tasks: how many write; each takes every ``tasks``-th partition. None: one for each.

    Raises:
        ConfigError: there is no such column, or a number is not positive.
    """
    tasks = partitions if tasks is None else tasks
    if partitions < 1 or tasks < 1:
        raise ConfigError(f"there are no {partitions} partitions for {tasks} tasks")
    kind = dict(df.dtypes).get("key")
    if kind not in ("string", "binary"):
        raise ConfigError(
            "Required attribute 'key' not found; rows without keys need no more than coalesce()"
            if kind is None
            else f"key attribute unsupported type {kind}. key must be a(n) string or binary"
        )

    @arrow_udf("int")  # type: ignore[call-overload,untyped-decorator,unused-ignore]
    def partition_of(keys: pa.Array) -> pa.Array:
        return pa.array(
            [
                row % partitions if key is None else murmur2_partition(key, partitions)
                for row, key in enumerate(keys.to_pylist())
            ],
            pa.int32(),
        )

    placed = df.withColumn("partition", partition_of(col("key").cast("binary")))
    return placed.repartitionById(tasks, col("partition"))
