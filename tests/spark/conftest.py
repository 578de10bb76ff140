"""One Spark for the session in two threads of this machine, and one cluster of processes.

Tests that kill start their own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.spark import sessions, standalone
from benchmarks.spark.standalone import StandaloneCluster
from tests.kafka.conftest import kafka_distribution, transactional
from tests.support.schema_registry import registry_server

__all__ = [
    "EXECUTOR_VARIABLE",
    "kafka_distribution",
    "registry_server",
    "spark",
    "transactional",
]

EXECUTOR_VARIABLE = "AIOPRODUCER_TEST_EXECUTOR"
"""Set for Python workers, and not in this process."""

# For each driver, also of the examples and of Spark Connect: it computes little.
os.environ.setdefault("SPARK_SUBMIT_OPTS", standalone.SMALL_JVM)


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(1, id="protocol-1", marks=pytest.mark.soak),
        pytest.param(2, id="protocol-2"),
    ],
)
def protocol(request: pytest.FixtureRequest) -> int:
    """Of transactions. Tests in ``tests/kafka`` hold the producer to the older one."""
    version: int = request.param
    return version


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what Spark notes for its history server."""
    return tmp_path_factory.mktemp("event-log")


@pytest.fixture(scope="session")
def start_spark(
    event_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], SparkSession]]:
    """The session of this process, made anew if it was stopped."""
    settings = {
        f"spark.executorEnv.{EXECUTOR_VARIABLE}": "all",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
    }

    def start() -> SparkSession:
        return sessions.start("local[2,4]", settings)  # Spark's own number of attempts

    yield start
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()


@pytest.fixture
def spark(start_spark: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Shared: leave its settings as they are."""
    session = start_spark()
    yield session
    if not session.sparkContext._jsc:  # a test has stopped it
        return
    for query in session.streams.active:
        query.stop()


@pytest.fixture
def expendable_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """No other test gets it."""
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[StandaloneCluster]:
    """A master and two workers. Leave them alone: tests that kill start their own."""
    with StandaloneCluster(workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark_on_cluster(spark_cluster: StandaloneCluster) -> Iterator[SparkSession]:
    """The session of this process on the cluster: one executor on each worker."""
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()  # there is one in a process
    session = sessions.start(
        spark_cluster.url,
        {**standalone.SETTINGS, f"spark.executorEnv.{EXECUTOR_VARIABLE}": "all"},
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """Each test has topics of its own."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    """A new one of three partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3)
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the collector."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )
