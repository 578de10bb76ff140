"""A service of FastStream that publishes by aioproducer: ``python examples/faststream_app.py``, or
``faststream run faststream_app:app`` in this folder. BOOTSTRAP_SERVERS names the brokers.

One line makes the difference. Orders become invoices; the customer is the key.
"""

import asyncio
import os
from typing import Any

from faststream import FastStream
from faststream.kafka import KafkaBroker, KafkaResponse

from aioproducer.compat.faststream import use_aioproducer

PRICES = {"espresso": 250, "cappuccino": 380}
SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")

broker = KafkaBroker(SERVERS.split(","), acks="all", enable_idempotence=True)
use_aioproducer(broker)  # without this line, FastStream publishes by aiokafka
app = FastStream(broker)


@broker.subscriber("coffee-orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("coffee-invoices")
async def bill(order: dict[str, Any]) -> KafkaResponse:
    """The invoice of an order."""
    invoice = {**order, "cents": PRICES[order["article"]]}
    return KafkaResponse(invoice, key=order["customer"].encode())


if __name__ == "__main__":
    asyncio.run(app.run())
