"""No client: the price of a request alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.web.clients import Send


@asynccontextmanager
async def connect() -> AsyncIterator[Send]:
    async def send(customer: str, order: bytes) -> tuple[int, int]:
        return len(customer), len(order)

    yield send
