"""The partitions of keys, computed by the JVM or by Python workers."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.spark import internals, repartition_by_key

pytestmark = pytest.mark.spark

_RANDOM: Final = random.Random(20)
_KEYS: Final = [
    *(_RANDOM.randbytes(size) for size in range(70)),
    *(_RANDOM.randbytes(size % 7) for size in range(300)),
    *(f"käse-{number}" for number in range(50)),
    "\N{GRINNING FACE}",
    None,
]
"""Bytes, most of which are no text, and text."""


@pytest.fixture(params=["jvm", "python: no class", "python: another hash"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place where partitions are computed: Python, unless the JVM has Kafka's hash."""
    name: str = request.param
    if name == "python: no class":
        monkeypatch.setattr(internals, "_HASH", "org.apache.commons.codec.digest.NoSuchHash")
    elif name == "python: another hash":
        monkeypatch.setattr(internals, "_KNOWN", (b"foobar", 1))
    return name


def keyed(spark: SparkSession, kind: str) -> DataFrame:
    ours = {"binary": bytes, "string": str}[kind]
    keys = [key for key in _KEYS if key is None or type(key) is ours]
    rows = [(key, str(number)) for number, key in enumerate(keys)]
    return spark.createDataFrame(rows, f"key {kind}, value string")


def is_python_in(df: DataFrame) -> bool:
    return "Python" in df._jdf.queryExecution().toString()


@pytest.mark.parametrize("count", [1, 7, 1_000])
@pytest.mark.parametrize("kind", ["binary", "string"])
def test_keys_have_the_partitions_of_the_java_client(
    spark: SparkSession, way: str, kind: str, count: int
) -> None:
    placed = repartition_by_key(keyed(spark, kind), count, tasks=3)
    assert is_python_in(placed) is (way != "jvm")
    tasks = defaultdict(set)
    for key, _, partition, task in placed.withColumn("task", spark_partition_id()).collect():
        tasks[partition].add(task)
        if key is None:
            assert 0 <= partition < count
        else:
            data = key.encode() if isinstance(key, str) else bytes(key)
            assert partition == murmur2_partition(data, count)
    assert all(partition % 3 == task for partition, (task,) in tasks.items())


def test_a_string_that_is_no_utf_8_is_placed_by_its_bytes(spark: SparkSession, way: str) -> None:
    rows = spark.createDataFrame([(b"\xff\xfe-%d" % number, "") for number in range(20)])
    odd = rows.selectExpr("cast(_1 as string) as key", "_2 as value")
    placed = repartition_by_key(odd, 11).selectExpr("cast(key as binary)", "partition").collect()
    assert len(placed) == 20
    assert all(murmur2_partition(bytes(key), 11) == partition for key, partition in placed)
