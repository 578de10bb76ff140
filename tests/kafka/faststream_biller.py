"""A FastStream service as a process: ``faststream_biller.py servers name``.

It writes an invoice for each order, exactly once. Some handlers fail after they have published.
"""

import asyncio
import random
import sys

from faststream import FastStream
from faststream.kafka import KafkaBroker
from faststream.middlewares import AckPolicy

from aioproducer.compat.faststream import exactly_once, use_aioproducer

SERVERS, NAME = sys.argv[1:]

broker = use_aioproducer(KafkaBroker(SERVERS.split(","), acks="all", transaction_timeout_ms=10_000))
app = FastStream(broker)


@exactly_once(
    broker.subscriber(
        "fs-orders",
        group_id="fs-billing",
        ack_policy=AckPolicy.NACK_ON_ERROR,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
    ),
    transactional_id=f"billing-{NAME}",
)
@broker.publisher("fs-invoices")
async def bill(order: int) -> str:
    """Publish a note and an invoice. A crash or an error in between leaves neither."""
    await broker.publish(f"note {order}", "fs-notes")
    if random.random() < 0.05:
        raise ValueError(f"order {order} fails this time")
    await asyncio.sleep(0.005)
    return f"invoice {order}"


asyncio.run(app.run())
