"""Mistakes, each marked with the type checkers that find it in its line."""

from __future__ import annotations

from dataclasses import dataclass

from aioproducer import Producer, ProducerConfig, ProducerRecord, sync

BROKERS = "localhost:9092"


@dataclass
class Order:
    number: int


class OrderSerializer:
    def serialize(self, topic: str, data: Order, headers: list[tuple[str, bytes | None]]) -> bytes:
        return f"{topic}: {data.number}".encode()


def text(order: Order) -> str:
    return str(order.number)


async def without_serializers() -> None:
    producer = Producer(bootstrap_servers=BROKERS)
    producer.send("orders", 1)  # error
    producer.send("orders", {"number": 1})  # error
    producer.send("orders", b"1", key=Order(1))  # error
    producer.send(ProducerRecord("orders", 1))  # error
    await producer.send_many("orders", [1, 2])  # error
    producer.send(ProducerRecord("orders", key=b"k"))  # error


async def with_serializers() -> None:
    producer = Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer())
    producer.send("orders", "text")  # error
    producer.send("orders", Order(1), key=1)  # error
    producer.send(ProducerRecord("orders", "text"))  # error
    await producer.send_many("orders", ["text"])  # error
    await producer.send_many("orders", Order(1))  # error
    await producer.send("orders", Order(1), 3)  # error


def blocking() -> None:
    producer = sync.Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer())
    producer.send("orders", "text")  # error
    producer.send_many("orders", ["text"])  # error
    sync.Producer(bootstrap_servers=BROKERS).send("orders", 1)  # error


def options() -> None:
    producer = Producer(bootstrap_servers=BROKERS, ackz="all")  # error
    producer.send("orders", b"1", headers=7)  # error
    Producer(bootstrap_servers=BROKERS, acks="some")  # error
    Producer(bootstrap_servers=BROKERS, value_serializer="json")  # error
    Producer(bootstrap_servers=BROKERS, value_serializer=text)  # error
    Producer({"bootstrap.servers": BROKERS})  # error
    Producer(bootstrap_servers=BROKERS, linger_ms="5")  # error
    Producer(ProducerConfig(bootstrap_servers=BROKERS, linger_ms="5"))  # error
    sync.Producer(bootstrap_servers=BROKERS, ackz="all")  # error


def types() -> None:
    orders = OrderSerializer()
    Producer[str, Order](bootstrap_servers=BROKERS)  # error: pyright
    _orders: Producer[str, Order] = Producer(bootstrap_servers=BROKERS)  # error: pyright
    Producer[str, int](bootstrap_servers=BROKERS, value_serializer=orders)  # error: pyright


class TextProducer(Producer[str, str]):
    def publish(self, order: Order) -> None:
        self.send("orders", order)  # error
