"""The clients that Python runs: one transaction after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import confluent_kafka

import aioproducer
from benchmarks.clients import Settings

Record = tuple[bytes, int | None]
"""Value and partition; without partition the client's partitioner chooses."""

_FULL_QUEUE_WAIT: Final = 0.01


class Driver(Protocol):
    """One client with one transactional id, made and used on one event loop."""

    def __init__(
        self, bootstrap_servers: str, topic: str, transactional_id: str, settings: Settings
    ) -> None: ...

    async def start(self) -> None: ...

    async def transact(self, records: Iterable[Record]) -> None:
        """Return when they are committed."""

    async def stop(self) -> None: ...


class AioproducerDriver:
    """As the README shows it."""

    def __init__(
        self, bootstrap_servers: str, topic: str, transactional_id: str, settings: Settings
    ) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = aioproducer.Producer(transactional_id=transactional_id, **options)
        self._topic = topic

    async def start(self) -> None:
        await self._producer.start()

    async def transact(self, records: Iterable[Record]) -> None:
        producer, topic = self._producer, self._topic
        async with producer.transaction():
            for value, partition in records:
                producer.send(topic, value, partition=partition)
                await producer.drain()

    async def stop(self) -> None:
        await self._producer.close()


class ConfluentDriver:
    """librdkafka's producer, which blocks: its methods are coroutines in name only."""

    def __init__(
        self, bootstrap_servers: str, topic: str, transactional_id: str, settings: Settings
    ) -> None:
        options = {"bootstrap.servers": bootstrap_servers, **settings}
        self._producer = confluent_kafka.Producer({**options, "transactional.id": transactional_id})
        self._topic = topic

    async def start(self) -> None:
        self._producer.init_transactions()

    async def transact(self, records: Iterable[Record]) -> None:
        producer, topic, produce = self._producer, self._topic, self._producer.produce
        producer.begin_transaction()
        for value, partition in records:
            while True:
                try:
                    if partition is None:
                        produce(topic, value)
                    else:
                        produce(topic, value, partition=partition)
                except BufferError:
                    producer.poll(_FULL_QUEUE_WAIT)
                else:
                    break
        producer.commit_transaction()

    async def stop(self) -> None:
        self._producer.flush()
