"""Typed values through a whole producer, with a real registry and librdkafka's mock cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.testing import MockCluster, SchemaRegistryServer

pytestmark = [pytest.mark.registry, pytest.mark.mock_cluster]

EXAMPLE = Path(__file__).parents[2] / "examples" / "typed_orders.py"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as started:
        yield started


def test_the_example_runs(cluster: MockCluster, registry_server: SchemaRegistryServer) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, cluster.bootstrap_servers, registry_server.url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (0, "")
    refused, order, cancellation, subjects = done.stdout.splitlines()
    assert "Order.items[0].price: expected bytes (decimal), found str '2.50'" in refused
    assert "Decimal('2.50')" in order
    assert cancellation == "{'order_id': 1, 'reason': 'too late'}"
    assert subjects == "typed-orders-shop.Cancellation typed-orders-shop.Order"
