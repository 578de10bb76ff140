"""A cluster for the tests of other clients' interfaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioproducer.testing.mock_cluster import MockCluster


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    """Two brokers and a topic of two partitions, each of which leads one."""
    with MockCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster
