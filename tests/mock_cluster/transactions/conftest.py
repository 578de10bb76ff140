"""A cluster of three brokers for transactions, after which nothing is left behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from aioproducer.testing.mock_cluster import MockCluster
from tests.mock_cluster.transactions.transacting import NAME


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    """Broker 1 coordinates the transactions, broker 2 the group, each leads a partition."""
    with MockCluster(brokers=3, topics={"orders": 3}) as cluster:
        cluster.set_coordinator("transaction", NAME, 1)
        cluster.set_coordinator("group", "readers", 2)
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio finds nothing wrong: no exception unseen, no task lost."""
    yield
    gc.collect(0)
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
