"""The blocks of the page about consuming run as they stand, against real brokers.

A block that reads for ever is cancelled when its group has read everything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from aioproducer import Producer, TopicPartition
from aioproducer.admin import Admin
from aioproducer.errors import GroupIdNotFoundError
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.documentation.pages import DOCS, blocks
from tests.documentation.test_blocks import module_of, run
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PAGE = DOCS / "how-to" / "consuming.md"
TOPICS = {"orders": 6, "invoices": 3, "dead-orders": 1}
_numbers = count()


class Surroundings:
    """Records for the groups of the page, and their progress."""

    def __init__(self, admin: Admin, producer: Producer) -> None:
        self._admin = admin
        self._producer = producer

    async def send(self) -> None:
        for partition in range(TOPICS["orders"]):
            self._producer.send("orders", b"%d" % next(_numbers), partition=partition)
        await self._producer.flush()

    async def ends(self) -> int:
        return await self.records_of("orders")

    async def records_of(self, topic: str) -> int:
        places = [TopicPartition(topic, number) for number in range(TOPICS[topic])]
        found = await self._admin.list_offsets(dict.fromkeys(places, "end"))
        return sum(found.values())

    async def is_a_member(self, group: str) -> bool:
        try:
            found = await self._admin.describe_groups(group)
        except GroupIdNotFoundError:
            return False
        return any(member.partitions for member in found[group].members)

    async def has_read_all(self, group: str) -> bool:
        """By its committed offsets; the group `totals` keeps them itself."""
        if group == "totals":
            kept = [each.read_text() for each in Path("totals").glob("*.json")]
            return sum(int(text.strip("[]").split(",")[1]) for text in kept) == await self.ends()
        offsets = await self._admin.group_offsets(group)
        found = [at.offset for where, at in offsets.items() if where.topic == "orders"]
        return sum(found) == await self.ends()


async def run_until_all_is_read(around: Surroundings, group: str, block: Awaitable[None]) -> None:
    """Run ``block`` to its end, or until ``group`` has read what came before it and meanwhile."""
    await around.send()
    task = asyncio.ensure_future(block)
    try:
        await until(lambda: _either(task, around.is_a_member(group)), f"{group} has a member")
        await around.send()
        await until(lambda: _either(task, around.has_read_all(group)), f"{group} has read all")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def serve(app: Any) -> None:
    """A web application, which is healthy as soon as its consumer is in the group."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(base_url="http://app", transport=transport) as client,
    ):

        async def is_healthy() -> bool:
            return (await client.get("/health")).is_success

        await until(is_healthy, "the application is healthy")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def _either(task: asyncio.Future[None], condition: Coroutine[Any, Any, bool]) -> bool:
    return await condition or task.done()


async def test_the_blocks_run(
    kafka: KafkaCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    servers = kafka.bootstrap_servers
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
    ):
        around = Surroundings(admin, producer)
        others = [name for name in await admin.list_topics() if name in TOPICS]
        if others:  # another test's
            await admin.delete_topics(others)

            async def are_gone() -> bool:
                return not TOPICS.keys() & set(await admin.list_topics())

            await until(are_gone, "the topics are gone")
        for topic, partitions in TOPICS.items():
            await kafka.create_topic(topic, partitions)
        try:
            for block in blocks(PAGE, "python"):
                [group] = set(re.findall(r'group_id="([\w-]+)"', block.text))
                text = block.text.replace("localhost:9092", servers)
                text = text.replace("asyncio.run(main())", "await main()")  # to cancel it
                names = module_of(block, monkeypatch)
                running = run(PAGE, block._replace(text=text), names)
                if "lifespan(" in text:
                    await running
                    running = serve(names.pop("app"))
                await run_until_all_is_read(around, group, running)
            assert "orders-0" in capsys.readouterr().out
            assert await around.records_of("invoices") > 0
        finally:
            await admin.delete_topics(TOPICS)
