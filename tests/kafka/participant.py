"""What a process does that takes part in the transaction of another one."""

from __future__ import annotations

import asyncio

from aioproducer import Producer, TransactionHandle


def take_part(
    bootstrap_servers: str,
    handle: TransactionHandle,
    topic: str,
    partition: int,
    values: list[bytes],
    offset: int | None,
    end: str | None,
) -> list[int]:
    """Write, and commit or abort where ``end`` says so; the offsets of what was written."""

    async def write() -> list[int]:
        async with Producer(bootstrap_servers=bootstrap_servers, transaction=handle) as producer:
            futures = [producer.send(topic, value, partition=partition) for value in values]
            if offset is not None:
                await producer.send_offsets_to_transaction({(topic, partition): offset}, topic)
            await producer.flush()
            if end == "commit":
                await producer.commit_transaction()
            elif end == "abort":
                await producer.abort_transaction()
            return [(await future).offset for future in futures]

    return asyncio.run(write())
