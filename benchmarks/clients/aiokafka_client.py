"""aiokafka: a future per record, or its pre-built batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

from benchmarks.clients import Settings
from benchmarks.clients.driver import WINDOW, Fates, await_each, await_window, count_futures


class Driver:
    def __init__(self, bootstrap_servers: str, topic: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = AIOKafkaProducer(**options)
        self._topic = topic

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def bulk(self, values: Sequence[bytes], tasks: int) -> Fates:
        producer, topic = self._producer, self._topic
        fates = Fates()
        futures = []
        for value in values:
            futures.append(await producer.send(topic, value))
            if len(futures) == WINDOW:
                await await_window(futures, fates)
        await await_window(futures, fates)
        return fates

    async def tasks(self, values: Sequence[bytes], tasks: int) -> Fates:
        return await await_each(partial(self._producer.send_and_wait, self._topic), values, tasks)

    single = tasks

    async def send_many(self, values: Sequence[bytes], tasks: int) -> Fates:
        """Fill batches by hand, a partition after another: ``create_batch``, ``send_batch``."""
        producer, topic = self._producer, self._topic
        partitions = sorted(await producer.partitions_for(topic))
        sent: list[tuple[Any, int]] = []
        batch = producer.create_batch()

        async def send() -> None:
            partition = partitions[len(sent) % len(partitions)]
            count = batch.record_count()
            sent.append((await producer.send_batch(batch, topic, partition=partition), count))

        for value in values:
            if batch.append(key=None, value=value, timestamp=None) is None:
                await send()
                batch = producer.create_batch()
                batch.append(key=None, value=value, timestamp=None)
        if batch.record_count():
            await send()
        await producer.flush()
        fates = Fates()
        for future, count in sent:
            counted = count_futures([future])
            fates.confirmed += counted.confirmed * count
            if counted.first_error is not None:
                fates.fail(counted.first_error, count)
        return fates
