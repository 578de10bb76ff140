"""aioproducer's blocking producer: a future of `concurrent.futures` per record.

It blocks, so its methods are coroutines in name only: the loop under them has nothing else to do.
"""

from __future__ import annotations

from concurrent.futures import Future
from time import perf_counter_ns
from typing import Any

from aioproducer.model import RecordMetadata
from aioproducer.sync import Producer
from benchmarks.clients import Settings
from benchmarks.clients.driver import Fates, routes
from benchmarks.workloads import Load


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **settings}
        self._producer = Producer(**options)
        self.send = self._producer.send

    async def start(self) -> None:
        self._producer.start()

    async def stop(self) -> None:
        self._producer.close()

    async def bulk(self, load: Load) -> Fates:
        send, (topic,) = self.send, load.topics
        fates = Fates()
        futures, window = [], load.window
        for value in load.values:
            futures.append(send(topic, value))
            if len(futures) == window:
                _await_oldest(futures, fates, keep=window // 2)
        _await_oldest(futures, fates)
        return fates

    async def routed(self, load: Load) -> Fates:
        send = self.send
        fates = Fates()
        futures, window = [], load.window
        for topic, key, value in routes(load):
            futures.append(send(topic, value, key=key))
            if len(futures) == window:
                _await_oldest(futures, fates, keep=window // 2)
        _await_oldest(futures, fates)
        return fates

    async def tasks(self, load: Load) -> Fates:
        """One record after another; it has no tasks."""
        fates = Fates()
        send, (topic,) = self.send, load.topics
        for value in load.values:
            began = perf_counter_ns()
            _await_oldest([send(topic, value)], fates)
            fates.latencies_ns.append(perf_counter_ns() - began)
        return fates


def _await_oldest(futures: list[Future[RecordMetadata]], fates: Fates, keep: int = 0) -> None:
    oldest = futures[: len(futures) - keep]
    del futures[: len(oldest)]
    for future in oldest:
        try:
            metadata = future.result()
        except Exception as error:
            fates.fail(error)
        else:
            if metadata.offset >= 0:
                fates.confirmed += 1
            else:
                fates.fail("a result without an offset")
