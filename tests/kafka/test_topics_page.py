"""The blocks of the page about topics run as they stand, against real brokers."""

from __future__ import annotations

import pytest

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.documentation.pages import DOCS, blocks
from tests.documentation.test_blocks import module_of, run
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PAGE = DOCS / "how-to" / "topics.md"


async def commit(kafka: KafkaCluster) -> None:
    """An offset of the group that the page is about."""
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="topics-page"
    ) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"one espresso", key=b"anna", partition=0)
        await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "billing")
        await producer.commit_transaction()


async def _topics_of_the_page(admin: Admin) -> list[str]:
    """The topics of the page that are there."""
    text = PAGE.read_text("utf-8")
    return [name for name in await admin.list_topics() if f'"{name}"' in text]


async def _are_gone(admin: Admin) -> bool:
    return not await _topics_of_the_page(admin)


async def _is_altered(admin: Admin) -> bool:
    found = await admin.describe_configs("orders", names=["retention.ms", "cleanup.policy"])
    return {each.value for each in found["orders"].values()} == {"86400000", "delete,compact"}


async def test_the_blocks_run(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        if others := await _topics_of_the_page(admin):  # another test's
            await admin.delete_topics(others)
        await until(lambda: _are_gone(admin), "the topics are gone")
        try:
            for block in blocks(PAGE, "python"):
                if "group_lag" in block.text:
                    await commit(kafka)
                    await until(lambda: admin.group_lag("billing"), "the committed offset")
                text = block.text.replace("localhost:9092", kafka.bootstrap_servers)
                await run(PAGE, block._replace(text=text), module_of(block, monkeypatch))
            await until(lambda: _is_altered(admin), "the configuration of the page")
        finally:
            await admin.delete_topics("orders")
    assert "orders-0" in capsys.readouterr().out
