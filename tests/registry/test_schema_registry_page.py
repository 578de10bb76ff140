"""The blocks of the page about schema registries run, with a registry's server and without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioproducer.testing import MockCluster, SchemaRegistryServer
from tests.documentation.pages import ROOT, blocks
from tests.documentation.test_blocks import module_of, run

pytestmark = [pytest.mark.mock_cluster, pytest.mark.registry]

PAGE = ROOT / "docs/how-to/schema-registry.md"
IN_MEMORY = "registry = InMemorySchemaRegistry()"
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


async def test_the_blocks_share_a_registry_in_memory(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says: all in one shell, without their lines that begin with ``registry =``."""
    first, *found = blocks(PAGE, "python")
    assert "asyncio.run(" in first.text, "a program of its own"
    assert IN_MEMORY in found[0].text
    session = module_of(found[0], monkeypatch)
    for block in found:
        names = module_of(block, monkeypatch) if block.module else session
        kept = [
            line
            for line in block.text.splitlines(keepends=True)
            if not line.startswith("registry =") or IN_MEMORY in line
        ]
        text = "".join(kept).replace("localhost:9092", cluster.bootstrap_servers)
        await run(PAGE, block._replace(text=text), names)
    assert session["order"].customer == "Grace"
