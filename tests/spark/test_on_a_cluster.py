"""Writes whose tasks run in executors of a cluster: no process of theirs is a child of the driver.

Read back by confluent-kafka, from a real Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import aioproducer
from aioproducer import Producer
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.spark import (
    foreach_batch,
    publish_dataframe,
    publish_partitions,
    register,
    repartition_by_key,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.standalone import StandaloneCluster
from tests.kafka.transactional import read
from tests.spark.conftest import EXECUTOR_VARIABLE
from tests.spark.sink import (
    Sink,
    add_file,
    for_each_batch,
    forget_last_commit,
    make_sink,
    numbers,
    numbers_in_files,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]

ROWS = 2_000


@pytest.fixture
def spark(spark_on_cluster: SparkSession) -> SparkSession:
    return spark_on_cluster


@pytest.fixture
async def sink(transactional: KafkaCluster) -> Sink:
    return await make_sink(transactional)


def at_least_once(sink: Sink) -> dict[str, Any]:
    return {name: sink.options[name] for name in ("kafka.bootstrap.servers", "topic")}


def keyed(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    return spark.range(rows).selectExpr("concat('key-', id) as key", "cast(id as string) as value")


def test_tasks_run_in_processes_of_the_workers(
    spark: SparkSession, spark_cluster: StandaloneCluster, protocol: int
) -> None:
    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import aioproducer

        parents = [each.pid for each in psutil.Process().parents()]
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"python": [sys.executable], "file": [aioproducer.__file__], "parents": [parents]}
            )

    schema = "python string, file string, parents array<long>"
    rows = spark.range(0, 8, numPartitions=8).mapInArrow(tell, schema).collect()
    executors = {each.pid for each in spark_cluster.executors()}
    assert len(executors) == 2
    for row in rows:
        assert (row.python, row.file) == (sys.executable, aioproducer.__file__)
        assert len(executors & set(row.parents)) == 1
    assert executors == executors & {pid for row in rows for pid in row.parents}


async def test_at_least_once(sink: Sink, spark: SparkSession) -> None:
    rows = numbers(spark, ROWS, tasks=5)
    rows.write.format("aioproducer").options(**at_least_once(sink)).mode("append").save()
    assert await sink.committed() == list(range(ROWS))


async def test_keyed_rows_exactly_once(sink: Sink, spark: SparkSession) -> None:
    sink.write(repartition_by_key(keyed(spark), partitions=4, tasks=2))
    assert await sink.committed() == list(range(ROWS))
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for (_, partition), values in logs.items():
        assert values
        assert all(murmur2_partition(b"key-" + value, 4) == partition for value in values)


async def test_a_batch_that_comes_again_is_written_once(sink: Sink, spark: SparkSession) -> None:
    for _ in range(2):
        sink.write(repartition_by_key(keyed(spark), partitions=4), **{"sink.batch.id": 7})
    assert await sink.committed() == list(range(ROWS))
    assert await sink.marker() == 8


async def test_of_a_write_that_fails_nothing_is_visible(sink: Sink, spark: SparkSession) -> None:
    broken = numbers(spark, ROWS).selectExpr(
        f"if(value = '{ROWS - 1}', raise_error('broken row'), value) as value"
    )
    with pytest.raises(PySparkException, match="broken row"):
        sink.write(broken)
    assert await sink.left_by_a_failure() == []


async def test_a_stream_exactly_once_and_what_it_wrote(
    sink: Sink, spark: SparkSession, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    sink.stream(rows, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    add_file(tmp_path / "rows", range(100, 150))
    session = spark.newSession()
    written = register(session)
    rows = session.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "rows"))
    sink.stream(rows, tmp_path / "checkpoint")
    assert [report.records for report in written.values()] == [0, 50]
    assert await sink.committed() == list(range(150))
    assert await sink.marker() == 3


async def test_foreach_batch(sink: Sink, spark: SparkSession, tmp_path: Path) -> None:
    told: dict[int, int] = {}
    publish = foreach_batch(
        on_report=lambda batch, report: told.update({batch: report.records}), **sink.options
    )
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    for_each_batch(rows, publish, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    for_each_batch(rows, publish, tmp_path / "checkpoint")
    assert told == {0: 50, 1: 0}
    assert await sink.committed() == list(range(100))


async def test_publish_dataframe(sink: Sink, spark: SparkSession) -> None:
    async with Producer(bootstrap_servers=sink.cluster.bootstrap_servers) as producer:
        report = await publish_dataframe(numbers(spark, ROWS, tasks=5), producer, sink.topic)
    assert report.records == ROWS
    assert await sink.committed() == list(range(ROWS))


async def test_a_variable_of_the_executors(sink: Sink, spark: SparkSession) -> None:
    options = at_least_once(sink) | {"kafka.acks": f"${{env:{EXECUTOR_VARIABLE}}}"}
    numbers(spark, 10).write.format("aioproducer").options(**options).mode("append").save()
    assert publish_partitions(numbers(spark, 10), **options).records == 10
    assert await sink.committed() == sorted(2 * list(range(10)))
    with pytest.raises(PySparkException, match=r"the driver, which begins and commits") as caught:
        sink.write(numbers(spark, 10), **{"kafka.acks": options["kafka.acks"]})
    assert f"{EXECUTOR_VARIABLE}, which is not set in this process" in str(caught.value)
