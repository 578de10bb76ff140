"""confluent-kafka's ``AIOProducer``: batches of records go to librdkafka in threads.

Its futures are resolved by ``poll()``, in a thread, without waking the loop: somebody has to poll
all the time, and the end of each poll wakes it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from confluent_kafka.aio import AIOProducer

from benchmarks.clients import Settings
from benchmarks.clients.driver import Fates, Flow, await_each, count, routes, spawn
from benchmarks.workloads import Load

_POLL: Final = 0.1
_OWN_OPTIONS: Final = ("batch_size", "buffer_timeout", "max_workers")
"""Of AIOProducer; the others are librdkafka's."""


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        own: dict[str, Any] = {
            name: value for name, value in settings.items() if name in _OWN_OPTIONS
        }
        librdkafka = {name: value for name, value in settings.items() if name not in own}
        self._producer = AIOProducer({"bootstrap.servers": bootstrap_servers, **librdkafka}, **own)
        self.send = self._producer.produce
        self._poller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._poller = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        assert self._poller is not None
        self._poller.cancel()
        await asyncio.wait([self._poller])
        await self._producer.close()

    async def _poll(self) -> None:
        while True:
            await self._producer.poll(_POLL)

    async def bulk(self, load: Load) -> Fates:
        send, (topic,) = self.send, load.topics
        fates = Fates()
        futures, window = [], load.window
        for value in load.values:
            futures.append(await send(topic, value))
            if len(futures) == window:
                await self._count(futures, fates)
        await self._count(futures, fates)
        return fates

    async def routed(self, load: Load) -> Fates:
        send = self.send
        fates = Fates()
        futures, window = [], load.window
        for topic, key, value in routes(load):
            futures.append(await send(topic, value, key))
            if len(futures) == window:
                await self._count(futures, fates)
        await self._count(futures, fates)
        return fates

    async def flow(self, load: Load) -> Fates:
        send, (topic,) = self.send, load.topics
        flow = Flow(_offset_of)
        for values in flow.steps(load.values):
            for value in values:
                flow.add(await send(topic, value))
            await flow.breathe()
        await self._producer.flush()
        return await flow.end()

    async def tasks(self, load: Load) -> Fates:
        return await await_each(self._sender(load), load)

    async def spawn(self, load: Load) -> Fates:
        return await spawn(self._sender(load), load)

    def _sender(self, load: Load) -> Any:
        produce, (topic,) = self.send, load.topics

        async def send(value: bytes) -> None:
            await (await produce(topic, value))

        return send

    async def _count(self, futures: list[asyncio.Future[Any]], fates: Fates) -> None:
        await self._producer.flush()
        for future in futures:
            count(future, fates, _offset_of)
        futures.clear()


def _offset_of(message: Any) -> Any:
    return message.offset()
