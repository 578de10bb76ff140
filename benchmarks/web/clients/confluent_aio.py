"""confluent-kafka's AIOProducer.

With its default ``batch_size`` a record waits until a thousand are there, or for a second without
any. Its futures are resolved by ``poll()``, in a thread, without waking the loop: a task polls all
the time, and the end of each poll wakes the loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka.aio import AIOProducer

from benchmarks.web.clients import TOPIC, Send, bootstrap_servers

POLL = 0.1
"""Seconds; a poll ends at the first delivery."""


@asynccontextmanager
async def connect() -> AsyncIterator[Send]:
    producer = AIOProducer(
        {
            "bootstrap.servers": bootstrap_servers(),
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": 5_000,
            "partitioner": "murmur2_random",  # the hash of the others
        },
        batch_size=1,
    )

    async def poll() -> None:
        while True:
            await producer.poll(POLL)

    async def send(customer: str, order: bytes) -> tuple[int, int]:
        message = await (await producer.produce(TOPIC, order, customer.encode()))
        return message.partition(), message.offset()

    poller = asyncio.create_task(poll())
    try:
        yield send
    finally:
        poller.cancel()
        await asyncio.wait([poller])
        await producer.close()
