"""This project's Producer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioproducer import Producer
from benchmarks.web.clients import TOPIC, Send, bootstrap_servers


@asynccontextmanager
async def connect() -> AsyncIterator[Send]:
    async with Producer(
        bootstrap_servers=bootstrap_servers(),
        delivery_timeout_ms=5_000,
        request_timeout_ms=2_000,
        max_block_ms=5_000,
    ) as producer:

        async def send(customer: str, order: bytes) -> tuple[int, int]:
            metadata = await producer.send(TOPIC, order, key=customer)
            return metadata.partition, metadata.offset

        yield send
