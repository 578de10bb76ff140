"""aiokafka."""

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]


async def _send(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        await producer.send_and_wait(topic, b"the first record")
        delivered()


def send_first(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    asyncio.run(_send(bootstrap_servers, topic, delivered))
