"""Consumers and readers by their deserializers, as users write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, assert_type

from aioproducer import Consumer, Producer, Reader
from aioproducer.reader import ConsumerRecord
from aioproducer.schema_registry import AvroDeserializer
from aioproducer.serialization import JsonDeserializer, StringDeserializer

BROKERS = "localhost:9092"


@dataclass
class Order:
    number: int


def order(data: bytes) -> Order:
    return Order(int(data))


def by_the_deserializers() -> None:
    assert_type(
        Consumer("orders", group_id="billing", bootstrap_servers=BROKERS), Consumer[bytes, bytes]
    )
    assert_type(
        Consumer("orders", group_id="billing", value_deserializer=order), Consumer[bytes, Order]
    )
    assert_type(
        Consumer("orders", group_id="billing", value_deserializer=json.loads), Consumer[bytes, Any]
    )
    assert_type(
        Consumer("orders", group_id="billing", key_deserializer=bytes.decode), Consumer[str, bytes]
    )
    assert_type(
        Consumer(
            "orders",
            group_id="billing",
            key_deserializer=StringDeserializer(),
            value_deserializer=JsonDeserializer(Order),
        ),
        Consumer[str, Order],
    )
    assert_type(
        Consumer("orders", group_id="billing", value_deserializer=AvroDeserializer("http://r")),
        Consumer[bytes, Any],
    )
    assert_type(
        Consumer[bytes, Order].from_properties({}, "orders", value_deserializer=order),
        Consumer[bytes, Order],
    )
    assert_type(Reader("orders", bootstrap_servers=BROKERS), Reader[bytes, bytes])
    assert_type(
        Reader("orders", bootstrap_servers=BROKERS, value_deserializer=order), Reader[bytes, Order]
    )


async def reading(
    raw: Consumer, orders: Consumer[str, Order], reader: Reader[str, Order], producer: Producer
) -> None:
    async for each in raw:
        assert_type(each, ConsumerRecord[bytes, bytes])
        assert_type(each.value, bytes | None)
    async for record in orders:
        assert_type(record.key, str | None)
        assert_type(record.value, Order | None)
    async for records in orders.lists():
        assert_type(records, list[ConsumerRecord[str, Order]])
    async for work in orders.transactions(producer):
        assert_type(work.records, list[ConsumerRecord[str, Order]])
    async for batch in orders.batches():
        assert_type(batch[0], ConsumerRecord[bytes, bytes])
    async for record in reader:
        assert_type(record.value, Order | None)
    assert_type(await orders.record(), ConsumerRecord[str, Order] | None)

    async def handle(record: ConsumerRecord[str, Order]) -> None: ...
    async def handle_bytes(record: ConsumerRecord) -> None: ...
    async def handle_any(record: ConsumerRecord[Any, Any]) -> None: ...

    await orders.run(handle)
    await raw.run(handle_bytes)
    await orders.run(handle_any)
