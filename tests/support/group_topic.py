"""A topic whose records are numbered, and a group that reads it; members that run in tests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.model import ConsumerRecord
from aioproducer.testing.kafka_cluster import KafkaCluster

PARTITIONS = 6
QUICK = {"heartbeat_interval_ms": 300, "session_timeout_ms": 6_000}
_numbers = count()


class Topic:
    """A topic whose records are numbered, and a group that reads it."""

    def __init__(self, kafka: KafkaCluster, producer: Producer) -> None:
        number = next(_numbers)
        self.name, self.group = f"group-topic-{number}", f"group-{number}"
        self.kafka = kafka
        self.sent = 0
        self.read: Counter[int] = Counter()
        self.readers: dict[str, set[int]] = {}
        """The partitions that each member has read."""
        self.producer = producer

    async def send(self, records: int) -> None:
        for _ in range(records):
            value = b"%d" % self.sent
            self.producer.send(self.name, value, partition=self.sent % PARTITIONS)
            self.sent += 1
        await self.producer.flush()

    def took(self, name: str, value: bytes, partition: int) -> None:
        self.read[int(value)] += 1
        self.readers.setdefault(name, set()).add(partition)

    async def handle(self, name: str, record: ConsumerRecord) -> None:
        self.took(name, record.value or b"", record.partition)

    @property
    def complete(self) -> bool:
        return len(self.read) == self.sent

    def consumer(self, *topics: Any, **options: Any) -> Consumer:
        return Consumer(
            *(topics or (self.name,)),
            group_id=self.group,
            bootstrap_servers=self.kafka.bootstrap_servers,
            **{"auto_offset_reset": "earliest", **QUICK, **options},
        )

    async def consume(
        self, name: str, work: Callable[[ConsumerRecord], Any] = lambda record: None, **options: Any
    ) -> None:
        async with self.consumer(**options) as consumer:
            async for record in consumer:
                await asyncio.sleep(0.001)
                work(record)
                self.took(name, record.value or b"", record.partition)

    async def consume_one(self, consumer: Consumer) -> None:
        records = aiter(consumer)
        record = await anext(records)
        self.took("one", record.value or b"", record.partition)
        await consumer.commit()

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.kafka.bootstrap_servers)

    async def described(self) -> list[list[str]]:
        """The rows of Kafka's own tool."""
        tool = await self.kafka.tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", self.kafka.bootstrap_servers),
            *("--describe", "--group", self.group),
        )
        rows = [line.split() for line in tool.stdout.splitlines() if self.name in line]
        return sorted(rows, key=lambda row: int(row[2]))


@asynccontextmanager
async def running(*members: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Members until the block ends; their errors are raised."""
    tasks = [asyncio.ensure_future(member) for member in members]
    try:
        yield tasks
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
