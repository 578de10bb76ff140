"""Tests against librdkafka's mock cluster: a real wire, and errors as the test orders them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from aioproducer.errors import MissingExtraError
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.ports import free_ports

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.mock_cluster)


@pytest.fixture(scope="session", autouse=True)
def _mock_cluster_is_available() -> None:
    """Skips every test here where confluent-kafka is missing; CI does not let it pass."""
    try:
        with MockCluster(brokers=1):
            pass
    except MissingExtraError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but {error}")
        pytest.skip(f"NOT TESTED: {error}")


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """A fresh cluster of three brokers without topics."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry of prometheus_client, for one test."""
    return CollectorRegistry()


@pytest.fixture
def metrics_address(registry: CollectorRegistry) -> Iterator[str]:
    """The endpoint of this process that serves ``registry``."""
    [port] = free_ports(1)
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    yield f"127.0.0.1:{port}"
    server.shutdown()
    server.server_close()
    thread.join()
