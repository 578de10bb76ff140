"""aiokafka: a future per record, or its pre-built batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

from benchmarks.clients import Settings
from benchmarks.clients.driver import (
    Fates,
    Flow,
    await_each,
    await_each_topic,
    await_oldest,
    count,
    routes,
    spawn,
)
from benchmarks.workloads import Load


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = AIOKafkaProducer(**options)
        self.send = self._producer.send

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def bulk(self, load: Load) -> Fates:
        send = self.send
        (topic,) = load.topics
        fates = Fates()
        futures, window = [], load.window
        for value in load.values:
            futures.append(await send(topic, value))
            if len(futures) == window:
                await await_oldest(futures, fates, keep=window // 2)
        await await_oldest(futures, fates)
        return fates

    async def routed(self, load: Load) -> Fates:
        send = self.send
        # Else it asks for one topic after another, each time also for those that it knows.
        await self._producer.client.set_topics(load.topics)
        fates = Fates()
        futures, window = [], load.window
        for topic, key, value in routes(load):
            futures.append(await send(topic, value, key=key))
            if len(futures) == window:
                await await_oldest(futures, fates, keep=window // 2)
        await await_oldest(futures, fates)
        return fates

    async def flow(self, load: Load) -> Fates:
        send = self.send
        (topic,) = load.topics
        flow = Flow()
        for values in flow.steps(load.values):
            for value in values:
                flow.add(await send(topic, value))
            await flow.breathe()
        return await flow.end()

    async def each_topic(self, load: Load) -> Fates:
        return await await_each_topic(self._producer.send_and_wait, load)

    async def tasks(self, load: Load) -> Fates:
        return await await_each(partial(self._producer.send_and_wait, *load.topics), load)

    async def spawn(self, load: Load) -> Fates:
        return await spawn(partial(self._producer.send_and_wait, *load.topics), load)

    async def send_many(self, load: Load) -> Fates:
        """Fill batches by hand, a partition after another: ``create_batch``, ``send_batch``."""
        producer, (topic,) = self._producer, load.topics
        partitions = sorted(await producer.partitions_for(topic))
        sent: list[tuple[Any, int]] = []
        batch = producer.create_batch()

        async def send() -> None:
            partition = partitions[len(sent) % len(partitions)]
            records = batch.record_count()
            sent.append((await producer.send_batch(batch, topic, partition=partition), records))

        for value in load.values:
            if batch.append(key=None, value=value, timestamp=None) is None:
                await send()
                batch = producer.create_batch()
                batch.append(key=None, value=value, timestamp=None)
        if batch.record_count():
            await send()
        await producer.flush()
        fates = Fates()
        for future, records in sent:
            of_batch = Fates()
            count(future, of_batch)
            fates.confirmed += of_batch.confirmed * records
            if of_batch.first_error is not None:
                fates.fail(of_batch.first_error, records)
        return fates

    send_columns = send_many  # it takes no columns, so the same values from a list
