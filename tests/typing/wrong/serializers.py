"""Mistakes with built-in serializers, each marked with the type checkers that find it."""

from __future__ import annotations

from dataclasses import dataclass

from aioproducer import Producer
from aioproducer.serialization import (
    CloudEventSerializer,
    JsonSerializer,
    LongSerializer,
    RecordHeaders,
    StringSerializer,
)

BROKERS = "localhost:9092"


@dataclass
class Order:
    number: int


class ReturnsText:
    def serialize(self, topic: str, data: Order, headers: RecordHeaders) -> str:
        return str(data.number)


def mistakes() -> None:
    producer = Producer(
        bootstrap_servers=BROKERS,
        key_serializer=LongSerializer(),
        value_serializer=JsonSerializer[Order](),
    )
    producer.send("orders", Order(1), key="1")  # error
    producer.send("orders", {"number": 1}, key=1)  # error
    CloudEventSerializer("batched")  # error
    StringSerializer(8)  # error
    Producer(bootstrap_servers=BROKERS, value_serializer=ReturnsText())  # error
    events = Producer(bootstrap_servers=BROKERS, value_serializer=CloudEventSerializer)
    events.send("orders", 1)  # error
