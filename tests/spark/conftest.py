"""One Spark for the session, in two threads of this machine; tests that kill start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark import sessions
from tests.kafka.conftest import kafka, kafka_distribution, protocol, transactional

__all__ = ["kafka", "kafka_distribution", "protocol", "spark", "transactional"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Shared: leave its settings as they are."""
    session = sessions.start()
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the collector."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )
