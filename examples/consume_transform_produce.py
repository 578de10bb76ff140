"""Exactly once from topic to topic: ``consume_transform_produce.py [host:port [instance]]``.

An order comes in, an invoice goes out. The invoices and the consumed offsets are written in one
transaction: both become visible, or neither. Any process may be killed at any time: a reader of
``invoices`` with ``read_committed`` finds one invoice for each order.

Start one instance for each partition of ``orders``, each with a name of its own. A restarted
instance keeps its name, so that it ends its open transaction at once.

The consumer is kafka-python's, which has the group's metadata (``group_metadata()``, KIP-447).
"""

import asyncio
import os
import signal
import sys
from typing import Any

from kafka import KafkaConsumer  # type: ignore[import-untyped]

from aioproducer import AbortableTransactionError, Producer, ProducerTimeoutError, loops

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
INSTANCE = sys.argv[2] if len(sys.argv) > 2 else "1"


class Orders:
    """The consumer. It blocks, so each call is made in a thread, and one after the other."""

    def __init__(self) -> None:
        self._consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=SERVERS.split(","),
            group_id="invoicing",
            isolation_level="read_committed",  # of orders, and of other instances' offsets
            enable_auto_commit=False,  # the transaction does it
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,  # others take over soon when this one dies
            heartbeat_interval_ms=1_000,
        )
        self.close = self._consumer.close
        self._member = ("", -1)

    def poll(self) -> tuple[dict[Any, list[Any]], Any]:
        """Records by partition, and the member of the group that got them."""
        records = self._consumer.poll(timeout_ms=500)
        group = self._consumer.group_metadata()
        member = (group.member_id, group.generation_id)
        if member != self._member or group.generation_id < 0:
            # After a rebalance others may have read on from where this one stood.
            self._member = member
            self.rewind()
            return {}, group
        return records, group

    def rewind(self) -> None:
        """Read again what was read and not committed."""
        for partition in self._consumer.assignment():
            offset = self._consumer.committed(partition)
            if offset is None:
                self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, offset)


def invoice(order: bytes) -> bytes:
    """The transformation; what it does elsewhere is done again after an abort."""
    return b"invoice of " + order


async def main() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # the transaction under way is finished
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with Producer(
        bootstrap_servers=SERVERS,
        transactional_id=f"invoicing-{INSTANCE}",
        transaction_timeout_ms=10_000,  # readers wait so long for a dead instance
    ) as producer:
        orders = await asyncio.to_thread(Orders)
        try:
            while not stopped.is_set():
                records, group = await asyncio.to_thread(orders.poll)
                if not records:
                    continue
                try:
                    async with producer.transaction():
                        for order in (order for batch in records.values() for order in batch):
                            producer.send("invoices", invoice(order.value), key=order.key)
                            await producer.drain()
                        offsets = {place: batch[-1].offset + 1 for place, batch in records.items()}
                        await producer.send_offsets_to_transaction(offsets, group)
                except (AbortableTransactionError, ProducerTimeoutError) as error:
                    # Any other error ends this program: another attempt would fail as well.
                    print(f"once more: {error}", flush=True)
                    await asyncio.to_thread(orders.rewind)
        finally:
            await asyncio.to_thread(orders.close)


loops.run(main())
