"""aioproducer, as its README shows it."""

from __future__ import annotations

from functools import partial
from typing import Any

from aioproducer import Producer
from benchmarks.clients import Settings
from benchmarks.clients.driver import (
    Fates,
    Flow,
    await_each,
    await_each_topic,
    await_oldest,
    routes,
    spawn,
)
from benchmarks.workloads import Load


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = Producer(**options)
        self.send = self._producer.send

    @property
    def producer(self) -> Producer:
        """The producer that is measured."""
        return self._producer

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.close()

    async def bulk(self, load: Load) -> Fates:
        send, drain = self.send, self._producer.drain
        (topic,) = load.topics
        fates = Fates()
        futures, window = [], load.window
        for value in load.values:
            futures.append(send(topic, value))
            await drain()
            if len(futures) == window:
                await await_oldest(futures, fates, keep=window // 2)
        await await_oldest(futures, fates)
        return fates

    async def routed(self, load: Load) -> Fates:
        send, drain = self.send, self._producer.drain
        fates = Fates()
        futures, window = [], load.window
        for topic, key, value in routes(load):
            futures.append(send(topic, value, key=key))
            await drain()
            if len(futures) == window:
                await await_oldest(futures, fates, keep=window // 2)
        await await_oldest(futures, fates)
        return fates

    async def flow(self, load: Load) -> Fates:
        send, drain = self.send, self._producer.drain
        (topic,) = load.topics
        flow = Flow()
        for values in flow.steps(load.values):
            for value in values:
                flow.add(send(topic, value))
                await drain()
            await flow.breathe()
        return await flow.end()

    async def each_topic(self, load: Load) -> Fates:
        return await await_each_topic(self.send, load)

    async def tasks(self, load: Load) -> Fates:
        [topic] = load.topics
        return await await_each(partial(self.send, topic), load)

    async def spawn(self, load: Load) -> Fates:
        [topic] = load.topics
        return await spawn(partial(self.send, topic), load)

    async def send_many(self, load: Load) -> Fates:
        return await self._send_all(load, load.values)

    async def send_columns(self, load: Load) -> Fates:
        return await self._send_all(load, load.columns)

    async def _send_all(self, load: Load, values: Any) -> Fates:
        (topic,) = load.topics
        report = await self._producer.send_many(topic, values)
        fates = Fates()
        fates.confirmed = report.delivered
        if report.first_failure is not None:
            fates.fail(report.first_failure, report.failed)
        return fates
