"""A FastStream service that publishes with aioproducer:
``python examples/faststream_app.py``, or ``faststream run faststream_app:app`` in this folder.
BOOTSTRAP_SERVERS names the brokers.

Only one line is specific to aioproducer. Orders become invoices, with the customer as the key.
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
use_aioproducer(broker)  # without this line, FastStream publishes with aiokafka
app = FastStream(broker)


@broker.subscriber("coffee-orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("coffee-invoices")
async def bill(order: dict[str, Any]) -> KafkaResponse:
    """Return the invoice of an order."""
    invoice = {**order, "cents": PRICES[order["article"]]}
    return KafkaResponse(invoice, key=order["customer"].encode())


if __name__ == "__main__":
    asyncio.run(app.run())
