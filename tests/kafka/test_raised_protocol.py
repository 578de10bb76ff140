"""``transaction.version`` is raised and lowered under running transactions: all stay whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aioproducer import Producer
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import committed, offset_of, producer_on, topics
from tests.support.waiting import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.parametrize("protocol", [2], ids=["protocol-2"], indirect=True),
]

CONNECTION_LASTS_MS = 100
"""Brokers tell what the cluster has agreed on when a connection begins."""
PAUSE = 0.3
BETWEEN_PAUSES = 4


@pytest.fixture
async def lowered(transactional: KafkaCluster) -> AsyncIterator[KafkaCluster]:
    """With the protocol before KIP-890; raised again at the end."""
    await agree_on(transactional, 1)
    yield transactional
    await agree_on(transactional, 2)


async def agree_on(cluster: KafkaCluster, version: int) -> None:
    tool = await cluster.tool(
        "org.apache.kafka.tools.FeatureCommand",
        *("--bootstrap-server", cluster.bootstrap_servers),
        *(
            "upgrade" if version == 2 else "downgrade",
            "--feature",
            f"transaction.version={version}",
        ),
    )
    assert tool.returncode == 0 or "is already" in tool.stdout + tool.stderr, (
        tool.stdout + tool.stderr
    )


class Writer:
    """One transaction after the other, of one or of two producers; a third of them aborted."""

    def __init__(self, cluster: KafkaCluster, topic: str, *, shared: bool) -> None:
        self.cluster = cluster
        self.topic = topic
        self.shared = shared
        self.stopped = False
        self.ended = 0
        self.versions: list[int] = []
        """Of the protocol, in each shared transaction."""
        self.expected: list[bytes] = []
        self.offset: int | None = None

    async def run(self) -> None:
        async with producer_on(
            self.cluster, self.topic, connections_max_idle_ms=CONNECTION_LASTS_MS
        ) as producer:
            while not self.stopped:
                await self._transaction(producer)
                self.ended += 1
                if self.ended % BETWEEN_PAUSES == 0:
                    await asyncio.sleep(PAUSE)

    async def _transaction(self, producer: Producer) -> None:
        number = self.ended
        value = b"%d" % number
        await producer.begin_transaction(shared=self.shared)
        for partition in range(2):
            producer.send(self.topic, value, partition=partition)
        if self.shared:
            handle = producer.transaction_handle()
            self.versions.append(handle.version)
            async with Producer(
                bootstrap_servers=self.cluster.bootstrap_servers, transaction=handle
            ) as participant:
                await participant.send(self.topic, value, partition=2)
        else:
            producer.send(self.topic, value, partition=2)
        await producer.send_offsets_to_transaction({(self.topic, 0): number}, self.topic)
        if number % 3 == 2:
            await producer.abort_transaction()
            return
        await producer.commit_transaction()
        self.expected += [value] * 3
        self.offset = number

    async def progress(self) -> None:
        """Connections end and begin, and transactions with them."""
        target = self.ended + 2 * BETWEEN_PAUSES
        await until(lambda: self.ended >= target, f"transactions of {self.topic} end", 60)

    async def hears_of(self, version: int) -> None:
        await until(lambda: self.versions[-1] == version, f"version {version} is used", 60)


async def test_the_protocol_changes_under_running_transactions(lowered: KafkaCluster) -> None:
    names = ("raised-alone", "raised-shared")
    await topics(lowered, *names, "across")
    writers = [Writer(lowered, name, shared=name == names[1]) for name in names]
    async with (
        producer_on(lowered, "across", connections_max_idle_ms=CONNECTION_LASTS_MS) as across,
        asyncio.TaskGroup() as group,
    ):
        for writer in writers:
            group.create_task(writer.run())
        for version in (2, 1):
            await asyncio.gather(*[writer.progress() for writer in writers])
            await across.begin_transaction()
            await across.send("across", b"before %d" % version, partition=0)
            await agree_on(lowered, version)
            await writers[1].hears_of(version)
            await asyncio.gather(*[writer.progress() for writer in writers])
            await across.send("across", b"with %d" % version, partition=1)
            await across.commit_transaction()
        for writer in writers:
            writer.stopped = True
    assert await committed(lowered, "across") == [
        b"before 1",
        b"before 2",
        b"with 1",
        b"with 2",
    ]
    for writer in writers:
        assert await committed(lowered, writer.topic) == sorted(writer.expected)
        assert await offset_of(lowered, writer.topic, writer.topic) == writer.offset
    changes = [
        version
        for before, version in zip([0, *writers[1].versions], writers[1].versions, strict=False)
        if version != before
    ]
    assert changes == [1, 2, 1]
