"""Records, many values, transactions and interceptors, as users write them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from aioproducer import Producer, ProducerRecord, RecordMetadata, SendReport, sync


class Order:
    def __init__(self, number: int) -> None:
        self.number = number


def records() -> Iterator[ProducerRecord[str, Order]]:
    yield ProducerRecord("orders", Order(1), key="a")
    yield ProducerRecord[str, Order]("orders", Order(2), key="a")


async def arriving() -> AsyncIterator[Order]:
    yield Order(1)


async def send(producer: Producer[str, Order]) -> None:
    metadata = await producer.send("orders", Order(1), key="a")
    assert_type(metadata, RecordMetadata)
    await producer.send("orders", None, key="a")
    await producer.send("orders", Order(1), headers={"trace": b"1"})
    await producer.send(ProducerRecord("orders", Order(1), key="a"))
    await producer.send(ProducerRecord("orders", None, key="a"))
    for record in records():
        await producer.send(record)


async def send_many(producer: Producer[str, Order], columns: Any) -> None:
    assert_type(await producer.send_many("orders", [Order(1), Order(2)]), SendReport)
    await producer.send_many("orders", [Order(1), None])
    await producer.send_many("orders", (Order(number) for number in range(3)))
    await producer.send_many("orders", arriving())
    await producer.send_many("orders", records())
    await producer.send_many("orders", [ProducerRecord("orders", Order(1), key="a"), Order(2)])
    await producer.send_many("orders", columns)


async def transactions(producer: Producer[str, Order]) -> None:
    async with producer.transaction():
        producer.send("orders", Order(1), key="a")
        await producer.send_offsets_to_transaction({}, "group")


def blocking(producer: sync.Producer[str, Order], columns: Any) -> None:
    assert_type(producer.send("orders", Order(1), key="a").result(), RecordMetadata)
    producer.send(ProducerRecord("orders", Order(1), key="a"))
    producer.send_many("orders", [Order(1)])
    producer.send_many("orders", records())
    producer.send_many("orders", columns)
    with producer.transaction():
        producer.send("orders", Order(1))


def fields(record: ProducerRecord[str, Order], untyped: ProducerRecord) -> None:
    assert_type(record.value, Order)
    assert_type(record.key, str)
    assert_type(untyped.value, Any)


class Interceptor:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value.upper(), key=record.key)


def intercepted() -> Producer[str, str]:
    return Producer(bootstrap_servers="localhost:9092", interceptor_classes=[Interceptor])
