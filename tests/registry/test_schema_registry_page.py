"""The blocks of the page about schema registries run, with a registry and a mock cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioproducer.testing import MockCluster, SchemaRegistryServer
from tests.documentation.pages import ROOT, blocks
from tests.documentation.test_blocks import module_of, run

pytestmark = [pytest.mark.registry, pytest.mark.mock_cluster]

PAGE = ROOT / "docs/how-to/schema-registry.md"
TOPICS = {"orders": 1, "customers": 1, "names": 1, "events": 1}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, topics=TOPICS) as started:
        yield started


async def test_the_blocks_of_the_page_run(
    cluster: MockCluster, registry_server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = []
    found = blocks(PAGE, "python")
    assert len(found) > 8
    for block in found:
        text = block.text.replace("localhost:9092", cluster.bootstrap_servers)
        text = text.replace("http://localhost:8081", registry_server.url)
        names = module_of(block, monkeypatch)
        await run(PAGE, block._replace(text=text), names)
        orders += [names["order"]] if "order" in names else []
    assert [order.customer for order in orders] == ["Grace"]
