"""aiokafka's AIOKafkaProducer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

from benchmarks.web.clients import TOPIC, Send, bootstrap_servers


@asynccontextmanager
async def connect() -> AsyncIterator[Send]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers(), acks="all", request_timeout_ms=2_000
    ) as producer:

        async def send(customer: str, order: bytes) -> tuple[int, int]:
            metadata = await producer.send_and_wait(TOPIC, order, key=customer.encode())
            return metadata.partition, metadata.offset

        yield send
