"""One run in a process of its own: ``python -m benchmarks.slow_brokers.client CLIENT …``.

The last line of standard output is the run's `Costs` as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import importlib
import json
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import nan
from statistics import fmean
from time import perf_counter
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer

from aioproducer import Producer
from benchmarks.heartbeat import Heartbeat
from benchmarks.measure import Meter
from benchmarks.memory import peak_bytes
from benchmarks.slow_brokers.plan import CLIENTS, Case, Client
from benchmarks.values import random_values

_AT_ONCE: Final = 100
"""Records that are sent before others run."""
_FULL_QUEUE_WAIT: Final = 0.01
_STATISTICS_EVERY_MS: Final = 250


@dataclass(frozen=True, slots=True)
class Costs:
    """One run as the client's process saw it: the measured part only."""

    seconds: float
    cpu_seconds: float
    """All threads, user and system."""
    delivered: int
    delivered_in_all: int
    """With those before and after the measured part."""
    failed: int
    out_of_order: int
    """Records with a lower offset than one that was sent before them to their partition."""
    requests: float
    """Of any kind, sent to all brokers."""
    request_bytes: float
    response_ms: float
    """From a request to its response, the mean of the last seconds over the brokers."""
    peak_bytes: int
    """Resident, of the whole process."""
    lateness_ms: dict[str, float]
    """Of the event loop, if it was watched."""

    @property
    def is_void(self) -> bool:
        """True if a record failed or is out of order: such a run proves nothing."""
        return bool(self.failed or self.out_of_order)


@dataclass(frozen=True, slots=True)
class Sent:
    """What went to the brokers so far."""

    requests: float = 0
    size: float = 0

    def __sub__(self, other: Sent) -> Sent:
        return Sent(self.requests - other.requests, self.size - other.size)


class Driver(Protocol):
    """One client, that sends to one topic until it is told to end."""

    delivered: int
    failed: int
    out_of_order: int

    def __init__(self, bootstrap: str, case: Case, client: Client) -> None: ...

    async def start(self) -> None: ...

    async def send_for(self, seconds: float) -> None: ...

    def sent(self) -> Sent: ...

    def response_ms(self) -> float: ...

    async def stop(self) -> None: ...


class Ours:
    """A future for each record, none of them awaited, and ``drain()`` as its documentation says."""

    def __init__(self, bootstrap: str, case: Case, client: Client) -> None:
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, **client.settings}
        self._producer = Producer(**options)
        self._case = case
        self._futures: deque[asyncio.Future[Any]] = deque()
        self._last = [-1] * case.partitions
        self.delivered = self.failed = self.out_of_order = 0

    async def start(self) -> None:
        await self._producer.start()
        await self._producer.partitions_for(self._case.topic)

    async def send_for(self, seconds: float) -> None:
        send, drain, add = self._producer.send, self._producer.drain, self._futures.append
        topic, keyed = self._case.topic, self._case.keyed
        values = random_values("slow", self._case.value_bytes)
        ends = perf_counter() + seconds
        number = 0
        while perf_counter() < ends:
            number += _AT_ONCE
            first = number % len(values)
            if keyed:
                for each, value in enumerate(values[first : first + _AT_ONCE]):
                    add(send(topic, value, key=b"%04d" % (first + each)))
                    await drain()
            else:
                for value in values[first : first + _AT_ONCE]:
                    add(send(topic, value))
                    await drain()
            self._count()
            await asyncio.sleep(0)

    def _count(self) -> None:
        """Count and forget the oldest futures that are done."""
        futures, last = self._futures, self._last
        for _ in range(2 * _AT_ONCE):
            if not futures or not futures[0].done():
                return
            future = futures.popleft()
            if future.exception() is not None:
                self.failed += 1
                continue
            metadata = future.result()
            self.delivered += 1
            self.out_of_order += metadata.offset <= last[metadata.partition]
            last[metadata.partition] = metadata.offset

    def sent(self) -> Sent:
        nodes = self._producer.metrics()["producer-node-metrics"].values()
        return Sent(
            sum(node["request-total"] for node in nodes),
            sum(node["outgoing-byte-total"] for node in nodes),
        )

    def response_ms(self) -> float:
        nodes = self._producer.metrics()["producer-node-metrics"].values()
        return fmean(latency for node in nodes if (latency := node["request-latency-avg"]) > 0)

    async def stop(self) -> None:
        await self._producer.close()
        while self._futures:
            self._count()


class Confluent:
    """A callback for each delivery; it blocks, and the loop has nothing else to do."""

    def __init__(self, bootstrap: str, case: Case, client: Client) -> None:
        self._sent = Sent()
        self._response_ms = nan
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "statistics.interval.ms": _STATISTICS_EVERY_MS,
                "stats_cb": self._take_statistics,
                **client.settings,
            }
        )
        self._case = case
        self.delivered = self.failed = self.out_of_order = 0

    async def start(self) -> None:
        self._producer.list_topics(self._case.topic, timeout=30)

    async def send_for(self, seconds: float) -> None:
        produce, poll, topic = self._producer.produce, self._producer.poll, self._case.topic
        keyed, on_delivery = self._case.keyed, self._on_delivery
        values = random_values("slow", self._case.value_bytes)
        ends = perf_counter() + seconds
        number = 0
        while perf_counter() < ends:
            number += _AT_ONCE
            first = number % len(values)
            for each, value in enumerate(values[first : first + _AT_ONCE]):
                key = b"%04d" % (first + each) if keyed else None
                while True:
                    try:
                        produce(topic, value, key, on_delivery=on_delivery)
                    except BufferError:
                        poll(_FULL_QUEUE_WAIT)
                    else:
                        break
            poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1

    def _take_statistics(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        self._sent = Sent(
            sum(broker["tx"] for broker in brokers), sum(broker["txbytes"] for broker in brokers)
        )
        waited = [each for broker in brokers if (each := broker["rtt"]["avg"])]
        if waited:  # microseconds
            self._response_ms = fmean(waited) / 1_000

    def sent(self) -> Sent:
        return self._sent

    def response_ms(self) -> float:
        return self._response_ms

    async def stop(self) -> None:
        self._producer.flush()


async def run(client: Client, case: Case, bootstrap: str, warm_up: float, seconds: float) -> Costs:
    """Send for ``warm_up`` seconds and then for ``seconds``, which are measured."""
    made: type[Driver] = globals()[client.driver]
    driver = made(bootstrap, case, client)
    await driver.start()
    if client.frozen:
        gc.freeze()
    await driver.send_for(warm_up)
    lateness: dict[str, float] = {}
    async with AsyncExitStack() as watching:
        heartbeat = await watching.enter_async_context(Heartbeat()) if client.beats else None
        delivered, sent = driver.delivered, driver.sent()
        with (meter := Meter()):
            await driver.send_for(seconds)
        delivered, sent = driver.delivered - delivered, driver.sent() - sent
        response_ms = driver.response_ms()
        if heartbeat is not None:
            lateness = heartbeat.lateness_ms() | heartbeat.own_lateness_ms()
    await driver.stop()
    return Costs(
        meter.seconds,
        meter.cpu_seconds,
        delivered,
        driver.delivered,
        driver.failed,
        driver.out_of_order,
        sent.requests,
        sent.size,
        response_ms,
        peak_bytes(),
        lateness,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.slow_brokers.client", description=__doc__
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,…")
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--value-bytes", type=int, required=True)
    parser.add_argument("--rtt-ms", type=int, required=True)
    parser.add_argument("--distance-ms", type=int, required=True)
    parser.add_argument("--keyed", action="store_true")
    parser.add_argument("--warm-up", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    client = CLIENTS[options.client]
    case = Case(
        options.partitions,
        options.value_bytes,
        options.rtt_ms,
        options.keyed,
        options.distance_ms,
    )
    loop_factory = importlib.import_module("uvloop").new_event_loop if client.uvloop else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        costs = runner.run(run(client, case, options.bootstrap, options.warm_up, options.seconds))
    print(json.dumps(dataclasses.asdict(costs)))


if __name__ == "__main__":
    main()
