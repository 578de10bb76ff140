"""Exactly once from topic to topic: ``consume_transform_produce.py [host:port [instance]]``.

Each order becomes an invoice. The invoices and the consumed offsets are written in one transaction:
both become visible, or neither. Even if processes are killed at any time, a reader of
``invoices`` with ``read_committed`` finds one invoice for each order.

Start several instances with different names to share the partitions of ``orders``. Restart an
instance under the same name: it then ends its open transaction at once.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from aioproducer import AbortableTransactionError, Producer, ProducerTimeoutError, loops
from aioproducer.consumer import Consumer

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
INSTANCE = sys.argv[2] if len(sys.argv) > 2 else "1"


def invoice(order: bytes | None) -> bytes:
    """The transformation. Side effects outside Kafka are repeated after an abort."""
    return b"invoice of " + (order or b"nothing")


async def write_invoices() -> None:
    async with (
        Producer(
            bootstrap_servers=SERVERS,
            transactional_id=f"invoicing-{INSTANCE}",
            transaction_timeout_ms=10_000,  # how long readers wait for a dead instance
        ) as producer,
        Consumer(
            "orders",
            group_id="invoicing",
            bootstrap_servers=SERVERS,
            isolation_level="read_committed",  # for orders, and for other instances' offsets
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,  # other instances soon take over if this one dies
            heartbeat_interval_ms=1_000,
        ) as consumer,
    ):
        while True:
            try:
                async for work in consumer.transactions(producer, max_records=500):
                    async with work:
                        for order in work:
                            producer.send("invoices", invoice(order.value), key=order.key)
                            await producer.drain()
            except (AbortableTransactionError, ProducerTimeoutError) as error:
                # Any other error ends the program: another attempt would fail as well.
                print(f"trying again: {error}", flush=True)


async def main() -> None:
    """Write invoices until a signal arrives. The signal aborts the current transaction."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await write_invoices()


loops.run(main())
