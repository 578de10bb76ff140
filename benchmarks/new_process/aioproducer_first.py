"""aioproducer."""

import asyncio
from collections.abc import Callable

from aioproducer import Producer


async def _send(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    async with Producer(bootstrap_servers=bootstrap_servers) as producer:
        await producer.send(topic, b"the first record")
        delivered()


def send_first(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    asyncio.run(_send(bootstrap_servers, topic, delivered))
