"""A member of a group as a process: ``group_member.py servers topic group protocol name``.

It prints the partition, offset and value of each record that it has finished.
"""

import asyncio
import sys

from aioproducer.consumer import Consumer
from aioproducer.model import ConsumerRecord


async def main(servers: str, topic: str, group: str, protocol: str, name: str) -> None:
    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0.002)
        print(record.partition, record.offset, (record.value or b"").decode(), flush=True)

    async with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=servers,
        group_protocol=protocol,  # type: ignore[arg-type]
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=2_000,
        request_timeout_ms=10_000,
        client_id=name,
    ) as consumer:
        await consumer.run(handle, concurrency=8, order="partition")


asyncio.run(main(*sys.argv[1:]))
