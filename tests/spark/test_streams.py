"""``writeStream.format("aioproducer")``, at least once, and the modes that Spark lets through."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from aioproducer.spark import foreach_batch
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import values

pytestmark = [pytest.mark.spark, pytest.mark.mock_cluster]


@pytest.fixture
def words(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of two micro-batches."""
    for second, text in ((1, "a\nb\na\n"), (2, "b\na\n")):
        (tmp_path / "words").mkdir(exist_ok=True)
        file = tmp_path / "words" / str(second)
        file.write_text(text)
        os.utime(file, (second, second))  # Spark reads the older one first
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "words"))


def run(rows: DataFrame, cluster: MockCluster, topic: str, folder: Path, mode: str) -> None:
    query = (
        rows.writeStream.format("aioproducer")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)


def test_each_row_is_written(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    run(words, cluster, topic, tmp_path, "append")
    assert sorted(map(str, values(cluster, topic))) == sorted(map(str, [b"a", b"b"] * 2 + [b"a"]))


def test_complete_mode_appends_as_sparks_sink_does(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    counts = words.groupBy("value").count().selectExpr("concat(value, count) as value")
    run(counts, cluster, topic, tmp_path, "complete")
    assert sorted(map(str, values(cluster, topic))) == ["b'a2'", "b'a3'", "b'b1'", "b'b2'"]


def test_update_mode_goes_through_foreach_batch(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    counts = words.groupBy("value").count().selectExpr("concat(value, count) as value")
    with pytest.raises(Exception, match="does not support Update mode"):
        run(counts, cluster, topic, tmp_path / "refused", "update")
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": topic,
    }
    publish = foreach_batch(**options)
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(publish)
        .start()
    )
    query.awaitTermination(120)
    assert sorted(map(str, values(cluster, topic))) == ["b'a2'", "b'a3'", "b'b1'", "b'b2'"]


def test_a_micro_batch_that_can_not_be_written_ends_the_query_with_the_reason(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    too_large = words.selectExpr("repeat(value, 2000000) as value")
    with pytest.raises(StreamingQueryException, match="RecordTooLargeError"):
        run(too_large, cluster, topic, tmp_path, "append")
    run(words, cluster, topic, tmp_path, "append")
    assert len(values(cluster, topic)) == 5
