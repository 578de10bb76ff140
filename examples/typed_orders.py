"""Send dataclasses as Avro with a schema registry:
``python examples/typed_orders.py [SERVERS] [URL]``.

Two event types share a topic. They are written and read back. The error for a wrong value is shown.
Needs ``pip install '.[schema-registry]'`` and a schema registry.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from aioproducer import Producer
from aioproducer.errors import SerializationError
from aioproducer.reader import Reader
from aioproducer.schema_registry import AvroDeserializer, AvroSerializer, SchemaRegistry

TOPIC = "typed-orders"
SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
REGISTRY = (
    sys.argv[2] if len(sys.argv) > 2 else os.environ.get("SCHEMA_REGISTRY", "http://localhost:8081")
)

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "product", "type": "string"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
CANCELLATION = {
    "type": "record",
    "name": "Cancellation",
    "namespace": "shop",
    "fields": [{"name": "order_id", "type": "long"}, {"name": "reason", "type": "string"}],
}


@dataclass(slots=True)
class Item:
    product: str
    price: Decimal


@dataclass(slots=True)
class Order:
    id: int
    at: datetime
    items: list[Item] = field(default_factory=list)
    note: str | None = None


@dataclass(slots=True)
class Cancellation:
    order_id: int
    reason: str


async def write(registry: SchemaRegistry) -> None:
    serializer = AvroSerializer[Order | Cancellation](
        registry,
        {Order: ORDER, Cancellation: CANCELLATION},
        subject_name_strategy="topic_record_name",
    )
    async with Producer(bootstrap_servers=SERVERS, value_serializer=serializer) as producer:
        coffee = Item("espresso", Decimal("2.50"))
        order = Order(1, datetime(2026, 1, 2, 9, 30, tzinfo=UTC), [coffee])
        await producer.send(TOPIC, order, partition=0)
        await producer.send(TOPIC, Cancellation(1, "too late"), partition=0)
        order.items[0].price = "2.50"  # type: ignore[assignment]
        try:
            await producer.send(TOPIC, order, partition=0)
        except SerializationError as error:
            print(error)


async def read(registry: SchemaRegistry) -> None:
    deserializer = AvroDeserializer[dict[str, object]](registry)
    async with Reader(TOPIC, bootstrap_servers=SERVERS, end="end") as reader:
        async for record in reader:
            print(await deserializer.deserialize(record.topic, record.value, record.headers))


async def main() -> None:
    async with SchemaRegistry(REGISTRY) as registry:
        await write(registry)
        await read(registry)
        print(*sorted(await registry.subjects(prefix=TOPIC)))


asyncio.run(main())
