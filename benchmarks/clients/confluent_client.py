"""confluent-kafka's ``Producer`` (librdkafka): a delivery callback per record.

It blocks, so its methods are coroutines in name only: the loop under them has nothing else to do.
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter_ns
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.clients import Settings
from benchmarks.clients.driver import Fates, routes
from benchmarks.workloads import Load

_RECORDS_PER_POLL = 100  # 1: a fifth fewer records/s; 1,000: the same
_RECORDS_PER_BATCH = 10_000
_FULL_QUEUE_WAIT = 0.01


class Driver:
    def __init__(self, bootstrap_servers: str, settings: Settings) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
        self.send = self._producer.produce
        self._fates = Fates()

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self._producer.flush()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._fates.confirmed += 1
        else:
            self._fates.fail(str(error))

    async def bulk(self, load: Load) -> Fates:
        self._fates = Fates()
        produce, poll = self.send, self._producer.poll
        (topic,), values, on_delivery = load.topics, load.values, self._on_delivery
        for first in range(0, len(values), _RECORDS_PER_POLL):
            for value in values[first : first + _RECORDS_PER_POLL]:
                while True:
                    try:
                        produce(topic, value, on_delivery=on_delivery)
                    except BufferError:
                        poll(_FULL_QUEUE_WAIT)
                    else:
                        break
            poll(0)
        self._producer.flush()
        return self._fates

    flow = bulk

    async def routed(self, load: Load) -> Fates:
        self._fates = Fates()
        produce, poll = self.send, self._producer.poll
        records, on_delivery = routes(load), self._on_delivery
        for _ in range(0, len(load.values), _RECORDS_PER_POLL):
            for topic, key, value in islice(records, _RECORDS_PER_POLL):
                while True:
                    try:
                        produce(topic, value, key, on_delivery=on_delivery)
                    except BufferError:
                        poll(_FULL_QUEUE_WAIT)
                    else:
                        break
            poll(0)
        self._producer.flush()
        return self._fates

    async def tasks(self, load: Load) -> Fates:
        """One record after another; it has no tasks."""
        self._fates = fates = Fates()
        produce, poll = self.send, self._producer.poll
        for sent, (topic, _, value) in enumerate(routes(load), 1):
            began = perf_counter_ns()
            produce(topic, value, on_delivery=self._on_delivery)
            while fates.confirmed + fates.failed < sent:
                poll(1.0)
            fates.latencies_ns.append(perf_counter_ns() - began)
        return fates

    each_topic = tasks

    async def send_many(self, load: Load) -> Fates:
        """``produce_batch``, which takes a dict per record."""
        self._fates = Fates()
        producer, (topic,), values = self._producer, load.topics, load.values
        for first in range(0, len(values), _RECORDS_PER_BATCH):
            left: list[Any] = [{"value": v} for v in values[first : first + _RECORDS_PER_BATCH]]
            while left:
                taken = producer.produce_batch(topic, left, on_delivery=self._on_delivery)
                producer.poll(0)
                if taken == len(left):
                    break
                left = [message for message in left if message.pop("_error", None)]
                producer.poll(_FULL_QUEUE_WAIT)
        producer.flush()
        return self._fates
