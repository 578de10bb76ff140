"""aioproducer, as its README shows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from aioproducer import Producer
from benchmarks.clients import Settings
from benchmarks.clients.driver import WINDOW, Fates, await_each, await_window


class Driver:
    def __init__(self, bootstrap_servers: str, topic: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = Producer(**options)
        self._topic = topic

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.close()

    async def bulk(self, values: Sequence[bytes], tasks: int) -> Fates:
        producer, topic = self._producer, self._topic
        fates = Fates()
        futures = []
        for value in values:
            futures.append(producer.send(topic, value))
            await producer.drain()
            if len(futures) == WINDOW:
                await await_window(futures, fates)
        await await_window(futures, fates)
        return fates

    async def tasks(self, values: Sequence[bytes], tasks: int) -> Fates:
        return await await_each(partial(self._producer.send, self._topic), values, tasks)

    single = tasks

    async def send_many(self, values: Sequence[bytes], tasks: int) -> Fates:
        report = await self._producer.send_many(self._topic, values)
        fates = Fates()
        fates.confirmed = report.delivered
        if report.first_failure is not None:
            fates.fail(report.first_failure, report.failed)
        return fates
