"""Mistakes, each marked with the type checkers that find it in its line."""

from __future__ import annotations

from aioproducer import Consumer
from aioproducer.reader import ConsumerRecord


def number(data: bytes) -> int:
    return int(data)


def made() -> None:
    Consumer("orders")  # error
    Consumer("orders", group_id="billing", auto_comit=True)  # error
    Consumer("orders", group_id="billing", value_deserializer="json")  # error


async def read(consumer: Consumer) -> None:
    numbers = Consumer("orders", group_id="billing", value_deserializer=number)

    async def handle(record: ConsumerRecord) -> None: ...

    await numbers.run(handle)  # error
    async for record in consumer:
        print(len(record.value))  # error
    async for other in numbers:
        print((other.value or 0).decode())  # error
