"""The rows of a load: cheap to make, so that making them is not what is measured."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from benchmarks.spark.plan import MICRO_BATCHES, ROWS_PER_BATCH
from benchmarks.values import json_values, keys, random_values
from benchmarks.workloads import Workload

_PARTITIONS = 8
_STREAM_PARTITIONS = 2


def rows_of(spark: SparkSession, load: Workload, number: int) -> DataFrame:
    """The same in every run: the load's distinct rows over and over, ``number`` of them or more.

    Of micro-batches a stream, which goes on without rows.
    """
    if load is MICRO_BATCHES:
        return _stream_of(spark, load, number)
    distinct = spark.createDataFrame(_distinct(load), _schema(load)).coalesce(1).cache()
    times = -(-number // distinct.count())
    again = spark.range(0, times, 1, _PARTITIONS)
    return again.crossJoin(broadcast(distinct)).drop("id")


def _stream_of(spark: SparkSession, load: Workload, number: int) -> DataFrame:
    """A micro-batch is there as soon as the one before has ended."""
    source = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=ROWS_PER_BATCH, numPartitions=_STREAM_PARTITIONS
    )
    rows = source.load().where(f"value < {number}")
    return rows.selectExpr(f"lpad(string(value), {load.value_bytes}, 'x') AS value")


def _distinct(load: Workload) -> list[tuple[bytes | str, ...]]:
    if not load.json:
        return [(value,) for value in random_values(load.name, load.value_bytes)]
    pairs = zip(
        json_values(load.name, load.value_bytes), keys(load.name, load.key_bytes), strict=True
    )
    return [(value.decode(), key.decode()) for value, key in pairs]


def _schema(load: Workload) -> str:
    return "value string, key string" if load.json else "value binary"
