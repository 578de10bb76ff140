"""Names that are not in PySpark's public API, in the installed version.

`make spark-newest` runs this with the newest one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, util
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import DecimalType, StringType, TimestampNTZType

from aioproducer.engine.partitioning import murmur2
from aioproducer.spark import internals
from aioproducer.spark.internals import BATCH_PROPERTY, HIDE_TRACEBACK, QUERY_PROPERTY

pytestmark = pytest.mark.spark


def test_the_jvm_has_the_methods_for_rows_in_arrow_format(spark: SparkSession) -> None:
    rows = spark.range(0, 1_000, 1, 3).selectExpr("id", "string(id) as value")
    schema = pa.schema([("id", pa.int64()), ("value", pa.string())])
    there = internals.jvm_batches(rows, schema)
    assert there is not None
    assert there.partitions == 3
    batches = list(there.batches)
    assert [each for each in batches if each is None] == [None] * 3
    table = pa.Table.from_batches([each for each in batches if each is not None])
    assert table.to_pydict() == {"id": [*range(1_000)], "value": [str(n) for n in range(1_000)]}


def test_the_jvm_has_kafkas_hash(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"foobar",), (b"",), (None,)], "key binary")
    hashed = internals.jvm_murmur2(spark, col("key"))
    assert hashed is not None
    expected = [murmur2(b"foobar"), murmur2(b""), None]
    signed = [each and (each ^ 1 << 31) - (1 << 31) for each in expected]
    assert [found for (found,) in rows.select(hashed).collect()] == signed


def test_the_types_of_arrow() -> None:
    assert internals.to_arrow_type(StringType()) == pa.string()
    assert internals.to_arrow_type(DecimalType(9, 2)) == pa.decimal128(9, 2)
    assert internals.to_arrow_type(TimestampNTZType()) == pa.timestamp("us")


def test_the_properties_of_a_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The driver's thread and the tasks have them."""

    def properties(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            context: Any = TaskContext.get()
            found = [context.getLocalProperty(name) for name in (BATCH_PROPERTY, QUERY_PROPERTY)]
            yield pa.RecordBatch.from_pydict({"batch": [found[0]], "query": [found[1]]})

    def note(df: DataFrame, batch: int) -> None:
        in_driver = tuple(
            spark.sparkContext.getLocalProperty(name) for name in (BATCH_PROPERTY, QUERY_PROPERTY)
        )
        in_tasks = {
            tuple(each)
            for each in df.mapInArrow(properties, "batch string, query string").collect()
        }
        seen.append((batch, in_driver, in_tasks))

    seen: list[tuple[int, Any, set[Any]]] = []
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "first").write_text("a\nb\n")
    rows = spark.readStream.text(str(tmp_path / "rows")).writeStream.foreachBatch(note)
    query = rows.option("checkpointLocation", str(tmp_path / "checkpoint"))
    started = query.trigger(availableNow=True).start()
    started.awaitTermination(120)
    its = ("0", started.id)
    assert seen == [(0, its, {its})]


def test_the_variable_that_hides_a_traceback() -> None:
    assert HIDE_TRACEBACK in inspect.getsource(util.handle_worker_exception)
