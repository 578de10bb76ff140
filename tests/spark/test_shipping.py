"""The package reaches the executors of a cluster whose machines only have its libraries.

Read back by confluent-kafka, from a real Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.spark import publish_partitions, repartition_by_key
from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark import sessions, standalone
from benchmarks.spark.standalone import StandaloneCluster
from tests.spark.shipped import a_zip, an_archive, an_environment
from tests.spark.sink import Sink, make_sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]

ROWS = 1_000
PYTHON = "spark.sql.execution.pyspark.python"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without the package."""
    return an_environment(tmp_path_factory.mktemp("bare"), has_the_package=False)


@pytest.fixture(scope="module")
def whole() -> Iterator[SparkSession]:
    """The session on a cluster of one executor, whose environment has no path to the package."""
    if (active := SparkSession.getActiveSession()) is not None:
        active.stop()  # there is one in a process
    with StandaloneCluster(workers=1, environment={"PYTHONPATH": ""}) as cluster:
        session = sessions.start(cluster.url, standalone.SETTINGS)
        yield session
        session.stop()


@pytest.fixture
def spark(whole: SparkSession, bare: Path) -> SparkSession:
    """With settings of its own."""
    session = whole.newSession()
    session.conf.set(PYTHON, str(bare / "bin" / "python"))
    return session


@pytest.fixture
async def sink(transactional: KafkaCluster) -> Sink:
    return await make_sink(transactional)


def place_of_the_package(spark: SparkSession) -> str:
    """Its file in the executor's Python."""

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import aioproducer

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [aioproducer.__file__]})

    [row] = spark.range(0, 1, numPartitions=1).mapInArrow(tell, "file string").collect()
    return str(row.file)


def publish(spark: SparkSession, sink: Sink) -> Any:
    rows = spark.range(ROWS).selectExpr("concat('key-', id) as key", "string(id) as value")
    return publish_partitions(repartition_by_key(rows, partitions=4, tasks=2), **sink.options)


async def test_a_python_without_the_package_is_named(spark: SparkSession, sink: Sink) -> None:
    with pytest.raises(PySparkException, match="No module named 'aioproducer'"):
        publish(spark, sink)
    assert await sink.left_by_a_failure() == []


async def test_an_archive_has_what_is_compiled(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    """The setting is for tasks alone: the driver has no such file."""
    spark.sparkContext.addArchive(f"{an_archive(tmp_path)}#shipped")
    spark.conf.set(PYTHON, "./shipped/bin/python")
    assert "/shipped/lib/" in place_of_the_package(spark)
    report = publish(spark, sink)
    assert (report.records, report.compiled) == (ROWS, is_compiled())
    rows = spark.range(ROWS, 2 * ROWS).selectExpr("string(id) as value").coalesce(1)
    sink.write(rows)
    assert await sink.committed() == list(range(2 * ROWS))
    assert not Path("shipped").exists()


async def test_python_files_are_not_compiled(
    spark: SparkSession, sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test here, as Spark takes no file back."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    spark.sparkContext.addPyFile(str(a_zip(tmp_path)))
    assert "/aioproducer.zip/" in place_of_the_package(spark)
    report = publish(spark, sink)
    assert (report.records, report.compiled) == (ROWS, False)
    assert await sink.committed() == list(range(ROWS))
