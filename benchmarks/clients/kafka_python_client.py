"""kafka-python: a future of its own kind per record, resolved by its sender thread.

It blocks, so its methods are coroutines in name only: the loop under them has nothing else to do.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, Final

from kafka import KafkaProducer  # type: ignore[import-untyped]
from kafka.partitioner import StickyPartitioner  # type: ignore[import-untyped]

from benchmarks.clients import Settings
from benchmarks.clients.driver import Fates, routes
from benchmarks.workloads import Load

_LONGEST_WAIT: Final = 120.0
_PARTITIONERS: Final = {"sticky": StickyPartitioner}


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers.split(","), **settings}
        if "partitioner" in options:
            options["partitioner"] = _PARTITIONERS[options["partitioner"]]()
        self._producer = KafkaProducer(**options)
        self.send = self._producer.send

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self._producer.close()

    async def bulk(self, load: Load) -> Fates:
        send, (topic,) = self.send, load.topics
        fates = Fates()
        futures, window = [], load.window
        for value in load.values:
            futures.append(send(topic, value))
            if len(futures) == window:
                _get_all(futures, fates)
        _get_all(futures, fates)
        return fates

    async def routed(self, load: Load) -> Fates:
        send = self.send
        fates = Fates()
        futures, window = [], load.window
        for topic, key, value in routes(load):
            futures.append(send(topic, value, key))
            if len(futures) == window:
                _get_all(futures, fates)
        _get_all(futures, fates)
        return fates

    async def tasks(self, load: Load) -> Fates:
        """One record after another; it has no tasks."""
        fates = Fates()
        send, (topic,) = self.send, load.topics
        for value in load.values:
            began = perf_counter_ns()
            _get_all([send(topic, value)], fates)
            fates.latencies_ns.append(perf_counter_ns() - began)
        return fates


def _get_all(futures: list[Any], fates: Fates) -> None:
    for future in futures:
        try:
            metadata = future.get(_LONGEST_WAIT)
        except Exception as error:
            fates.fail(error)
        else:
            if metadata.offset >= 0:
                fates.confirmed += 1
            else:
                fates.fail("a result without an offset")
    futures.clear()
