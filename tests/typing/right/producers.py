"""Producers by their serializers, as users write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, assert_type

from typing_extensions import Buffer

from aioproducer import Producer, ProducerConfig, sync

Plain = Buffer | str
BROKERS = "localhost:9092"


@dataclass
class Order:
    number: int


class OrderSerializer:
    def serialize(self, topic: str, data: Order, headers: list[tuple[str, bytes | None]]) -> bytes:
        headers.append(("schema", b"1"))
        return f"{topic}: {data.number}".encode()


class OldOrderSerializer:
    def serialize(self, topic: str, order: Order) -> bytes | None:
        return f"{topic}: {order.number}".encode()


class CallableSerializer:
    def __call__(self, order: Order, context: object = None) -> bytes:
        return str(order.number).encode()


def order_bytes(order: Order) -> bytes:
    return str(order.number).encode()


def order_buffer(order: Order) -> bytearray | None:
    return bytearray(order_bytes(order))


def any_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def by_the_serializers() -> None:
    assert_type(Producer(bootstrap_servers=BROKERS), Producer[Plain, Plain])
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer()),
        Producer[Plain, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer),
        Producer[Plain, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OldOrderSerializer()),
        Producer[Plain, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OldOrderSerializer),
        Producer[Plain, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=CallableSerializer()),
        Producer[Plain, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=order_bytes), Producer[Plain, Order]
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=order_buffer), Producer[Plain, Order]
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=any_bytes), Producer[Plain, Any]
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=str.encode), Producer[str, Plain]
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS, key_serializer=str.encode, value_serializer=OrderSerializer()
        ),
        Producer[str, Order],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=lambda order: order.to_json()),
        Producer[Plain, Any],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=lambda key: key.encode(),
            value_serializer=lambda order: order.to_json(),
        ),
        Producer[Any, Any],
    )


def maybe(serializing: bool, config: ProducerConfig | None) -> None:
    serializer = OrderSerializer() if serializing else None
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=serializer), Producer[Plain, Order]
    )
    options: dict[str, Any] = {"bootstrap_servers": BROKERS}
    takes_any: Producer = Producer(config, **options)
    takes_any.send("orders", {"number": 1})


def by_a_configuration(config: ProducerConfig) -> None:
    assert_type(Producer(config), Producer[Any, Any])
    assert_type(Producer(config, linger_ms=5), Producer[Any, Any])
    assert_type(Producer(config, value_serializer=OrderSerializer()), Producer[Any, Order])
    typed: Producer[str, Order] = Producer(config)
    typed.send("orders", Order(1), key="customer-7")


def by_annotations() -> None:
    orders: Producer[str, Order] = Producer(
        bootstrap_servers=BROKERS, value_serializer=lambda order: order_bytes(order)
    )
    orders.send("orders", Order(1), key="customer-7")
    # A producer that takes more is one that takes less.
    texts: Producer[str, bytes] = Producer(bootstrap_servers=BROKERS)
    texts.send("orders", b"1", key="customer-7")
    Producer[str, Order](
        bootstrap_servers=BROKERS, value_serializer=lambda order: str(order.number).encode()
    ).send("orders", Order(1), key="a")
    Producer[Order, bytes](
        bootstrap_servers=BROKERS, key_serializer=lambda order: str(order.number).encode()
    ).send("orders", b"1", key=Order(1))
    Producer[str, Order](
        bootstrap_servers=BROKERS,
        key_serializer=lambda key: key.encode(),
        value_serializer=lambda order: str(order.number).encode(),
    ).send("orders", Order(1), key="a")
    Producer[str, bytes](bootstrap_servers=BROKERS).send("orders", b"1", key="a")


def bare(producer: Producer, blocking: sync.Producer) -> None:
    producer.send("orders", object(), key=object())
    blocking.send("orders", object(), key=object())


def takes_a_bare_one() -> None:
    bare(
        Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer()),
        sync.Producer(bootstrap_servers=BROKERS),
    )


class Service:
    """An application's own class, whose producer has a type."""

    def __init__(self, producer: Producer[str, Order]) -> None:
        self.producer = producer

    async def place(self, order: Order) -> int:
        metadata = await self.producer.send("orders", order, key="customer-7")
        return metadata.offset


def services() -> None:
    Service(Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer))


class OrderProducer(Producer[str, Order]):
    def __init__(self, servers: str) -> None:
        super().__init__(bootstrap_servers=servers, value_serializer=OrderSerializer())


class TextProducer(Producer[str, str]):
    pass


class AnyProducer(Producer):
    pass


def subclasses() -> None:
    OrderProducer(BROKERS).send("orders", Order(1), key="a")
    assert_type(TextProducer(bootstrap_servers=BROKERS), TextProducer)
    TextProducer(bootstrap_servers=BROKERS).send("orders", "text")
    AnyProducer(bootstrap_servers=BROKERS).send("orders", object())


def blocking() -> None:
    assert_type(sync.Producer(bootstrap_servers=BROKERS), sync.Producer[Plain, Plain])
    assert_type(
        sync.Producer(bootstrap_servers=BROKERS, value_serializer=OrderSerializer()),
        sync.Producer[Plain, Order],
    )
    assert_type(
        sync.Producer(bootstrap_servers=BROKERS, key_serializer=str.encode),
        sync.Producer[str, Plain],
    )
    with sync.Producer[str, Order](
        bootstrap_servers=BROKERS, value_serializer=lambda order: str(order.number).encode()
    ) as producer:
        producer.send("orders", Order(1), key="a").result()
