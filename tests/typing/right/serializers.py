"""The serializers that are built in, and users' own, as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type
from uuid import UUID

from cloudevents.core.base import BaseCloudEvent
from typing_extensions import Buffer

from aioproducer import Producer, Serializer
from aioproducer.serialization import (
    BytesSerializer,
    CloudEventDeserializer,
    CloudEventSerializer,
    Deserializer,
    DoubleSerializer,
    FloatSerializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    RecordHeaders,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerializer,
)

BROKERS = "localhost:9092"


@dataclass
class Order:
    number: int


class OrderSerializer:
    """With all that a serializer may have."""

    def for_field(self, field: str) -> OrderSerializer:
        return self

    async def prepare(self, topic: str) -> None:
        pass

    def serialize(self, topic: str, data: Order, headers: RecordHeaders) -> bytes | None:
        headers.append(("schema", b"1"))
        return b"" if data.number else None

    async def close(self) -> None:
        pass


def producers() -> None:
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=StringSerializer("latin-1"),
            value_serializer=JsonSerializer(),
        ),
        Producer[str, Any],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=LongSerializer,
            value_serializer=JsonSerializer[Order](default=str),
        ),
        Producer[int, Order],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=UUIDSerializer(),
            value_serializer=CloudEventSerializer("structured"),
        ),
        Producer[UUID, BaseCloudEvent],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=IntegerSerializer(),
            value_serializer=DoubleSerializer,
        ),
        Producer[int, float],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=ShortSerializer,
            value_serializer=FloatSerializer(),
        ),
        Producer[int, float],
    )
    assert_type(
        Producer(
            bootstrap_servers=BROKERS,
            key_serializer=BytesSerializer(),
            value_serializer=OrderSerializer(),
        ),
        Producer[Buffer, Order],
    )


def protocols() -> list[Serializer[Any]]:
    own: Serializer[Order] = OrderSerializer()
    text: Serializer[str] = StringSerializer()
    json: Serializer[Order] = JsonSerializer()
    return [own, text, json]


def deserializers(data: bytes) -> None:
    assert_type(LongDeserializer().deserialize("orders", data, [("a", b"1")]), int | None)
    assert_type(StringDeserializer()(data), str | None)
    assert_type(UUIDDeserializer()(data), UUID | None)
    assert_type(CloudEventDeserializer().deserialize("orders", data), BaseCloudEvent | None)
    assert_type(JsonDeserializer(Order).deserialize("orders", data), Order | None)
    assert_type(JsonDeserializer().deserialize("orders", data), Any | None)
    texts: Deserializer[str] = StringDeserializer()
    texts(data)
