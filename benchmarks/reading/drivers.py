"""The clients: each reads partitions from the beginning to the end that they have.

Connections and metadata are there before the measured part, and nothing is read ahead then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka

from aioproducer import TopicPartition
from aioproducer.consumer import Consumer
from aioproducer.reader import Reader
from benchmarks.clients import Settings

_PATIENCE = 30.0
"""Seconds without a record after which a client has failed."""
_AT_ONCE = 10_000
_LOOK_EVERY = 0.05
"""Seconds."""


class Amount(NamedTuple):
    """The records that a client has handed out."""

    records: int
    value_bytes: int


class Driver(Protocol):
    """One client, made and used on one event loop."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: Sequence[int], settings: Settings
    ) -> None: ...

    async def start(self) -> None:
        """Connect, and find the ends."""

    async def read(self) -> Amount:
        """Read every record, and count it and the bytes of its value."""

    async def stop(self) -> None: ...


class _Ours:
    """A started Reader at the end of the log, which is sent to the beginning to read."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: Sequence[int], settings: Settings
    ) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        assignment = [TopicPartition(topic, each) for each in partitions]
        self.reader = Reader(assignment, start="end", end="end", **options)

    async def start(self) -> None:
        await self.reader.start()

    async def rewind(self) -> None:
        for each in self.reader.partitions:
            await self.reader.seek(each, 0)

    async def stop(self) -> None:
        await self.reader.close()


class Records(_Ours):
    """``async for record in reader``."""

    async def read(self) -> Amount:
        await self.rewind()
        records = size = 0
        async for record in self.reader:
            records += 1
            size += len(record.value or b"")
        return Amount(records, size)


class Batches(_Ours):
    """``async for batch in reader.batches()``."""

    async def read(self) -> Amount:
        await self.rewind()
        records = size = 0
        async for batch in self.reader.batches():
            for record in batch:
                records += 1
                size += len(record.value or b"")
        return Amount(records, size)


class ArrowBatches(_Ours):
    """``async for batch in reader.arrow_batches()``."""

    async def read(self) -> Amount:
        from pyarrow import compute

        await self.rewind()
        records = size = 0
        async for batch in self.reader.arrow_batches():
            records += batch.num_rows
            size += compute.sum(compute.binary_length(batch.column("value"))).as_py()
        return Amount(records, size)


class Group:
    """A Consumer that commits each second, the only member of its group."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: Sequence[int], settings: Settings
    ) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._consumer = Consumer(
            topic,
            group_id=f"reading-{uuid4()}",
            auto_offset_reset="earliest",
            on_assigned=lambda assigned: self._consumer.pause(*assigned),
            **options,
        )
        self._places = [TopicPartition(topic, each) for each in partitions]
        self._total = 0

    async def start(self) -> None:
        consumer = self._consumer
        await consumer.start()
        for _ in range(int(_PATIENCE / _LOOK_EVERY)):
            if consumer.positions.keys() >= {*self._places}:
                break
            await asyncio.sleep(_LOOK_EVERY)
        lag = await consumer.lag()
        self._total = sum(lag[place] for place in self._places)

    async def read(self) -> Amount:
        self._consumer.resume(*self._places)
        records = size = 0
        async for record in self._consumer:
            records += 1
            size += len(record.value or b"")
            if records == self._total:
                break
        return Amount(records, size)

    async def stop(self) -> None:
        await self._consumer.close()


class Confluent:
    """librdkafka's consumer, which blocks: its methods are coroutines in name only."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: Sequence[int], settings: Settings
    ) -> None:
        required = {"group.id": "none", "enable.auto.commit": False}
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap_servers, **required, **settings}
        )
        self._places = [confluent_kafka.TopicPartition(topic, each, 0) for each in partitions]
        self._total = 0

    async def start(self) -> None:
        self._total = sum(
            self._consumer.get_watermark_offsets(place, _PATIENCE)[1] for place in self._places
        )

    async def read(self) -> Amount:
        consume, total = self._consumer.consume, self._total
        self._consumer.assign(self._places)
        records = size = 0
        while records < total:
            messages = consume(min(_AT_ONCE, total - records), _PATIENCE)  # waits for so many
            if not messages:
                break
            for message in messages:
                records += 1
                size += len(message.value() or b"")
        return Amount(records, size)

    async def stop(self) -> None:
        self._consumer.close()


class Aiokafka:
    """Its consumer without a group."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: Sequence[int], settings: Settings
    ) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._consumer = aiokafka.AIOKafkaConsumer(**options)
        self._places = [aiokafka.TopicPartition(topic, each) for each in partitions]
        self._total = 0

    async def start(self) -> None:
        await self._consumer.start()
        ends = await self._consumer.end_offsets(self._places)
        self._total = sum(ends.values())

    async def read(self) -> Amount:
        consumer, total = self._consumer, self._total
        consumer.assign(self._places)
        for place in self._places:
            consumer.seek(place, 0)
        records = size = 0
        while records < total:
            found = await consumer.getmany(timeout_ms=int(_PATIENCE * 1_000))
            if not found:
                break
            for messages in found.values():
                for message in messages:
                    records += 1
                    size += len(message.value or b"")
        return Amount(records, size)

    async def stop(self) -> None:
        await self._consumer.stop()
