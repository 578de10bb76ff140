"""Messages of Protobuf, written and read with a registry in memory."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pydantic
import pytest
from google.protobuf.wrappers_pb2 import BytesValue  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.errors import ConfigError, NotPreparedError, SerializationError
from aioproducer.schema_registry import ProtobufDeserializer, ProtobufSerializer, Reference, Schema
from aioproducer.schema_registry.protobuf_schema import MessageNames, message_indexes
from aioproducer.schema_registry.wire_format import HEADERS, id_bytes
from aioproducer.testing import InMemorySchemaRegistry
from tests.support.protobuf_messages import TEXT, Item, Money, Order, Payment, an_order


@pytest.fixture
def registry() -> InMemorySchemaRegistry:
    return InMemorySchemaRegistry()


async def test_messages_are_written_with_their_indexes(registry: InMemorySchemaRegistry) -> None:
    serializer = ProtobufSerializer[Any](registry, Order)
    await serializer.prepare("orders")
    order = an_order()
    data = serializer.serialize("orders", order, [])
    assert data == id_bytes(2, [1]) + order.SerializeToString()
    assert await ProtobufDeserializer[Any](registry, Order).deserialize("orders", data) == order


async def test_imported_files_are_references(registry: InMemorySchemaRegistry) -> None:
    await ProtobufSerializer[Any](registry, Order).prepare("orders")
    assert set(await registry.subjects()) == {"orders-value", "shop/money.proto"}
    made = await registry.latest("orders-value")
    assert made.schema.references == (Reference("shop/money.proto", "shop/money.proto", 1),)
    looked_up = ProtobufSerializer[Any](registry, Order, auto_register_schemas=False)
    await looked_up.prepare("orders")
    assert looked_up.serialize("orders", an_order(), [])[:5] == id_bytes(made.id)


async def test_classes_are_made_from_the_registrys_descriptors(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = ProtobufSerializer[Any](registry)
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", an_order(), [])
    await serializer.prepare("orders")
    data = serializer.serialize("orders", an_order(), [])
    read = await ProtobufDeserializer[Any](registry).deserialize("orders", data)
    assert read is not None
    assert read.DESCRIPTOR.full_name == "shop.Order"
    assert read.items[0].price.cents == 250
    assert read.at.seconds == 1_700_000_000


async def test_the_class_is_chosen_by_the_name_of_the_message(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = ProtobufSerializer[Any](
        registry, [Order, Payment], subject_name_strategy="record_name"
    )
    await serializer.prepare("orders")
    data = serializer.serialize("orders", Payment(id=3), [])
    both = ProtobufDeserializer[Any](registry, [Order, Payment])
    assert await both.deserialize("orders", data) == Payment(id=3)
    one = ProtobufDeserializer[Any](registry, Order)
    with pytest.raises(SerializationError, match=r"its message is shop\.Payment, expected shop"):
        await one.deserialize("orders", data)
    with pytest.raises(SerializationError, match="expected Order, Payment, found an object of"):
        serializer.serialize("orders", Money(), [])


async def test_a_message_within_another_and_the_id_in_a_header(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = ProtobufSerializer[Any](registry, Item, schema_id_location="header")
    await serializer.prepare("orders")
    headers: list[tuple[str, bytes | None]] = []
    data = serializer.serialize("orders", Item(sku="a"), headers)
    assert data == Item(sku="a").SerializeToString()
    assert headers[0][0] == HEADERS["value"]
    assert headers[0][1] is not None
    assert headers[0][1].endswith(b"\x04\x02\x02")  # [1, 1]: the map's entry is [1, 0]
    read = await ProtobufDeserializer[Any](registry, Item).deserialize("orders", data, headers)
    assert read == Item(sku="a")


@dataclass
class Ordered:
    id: int
    customer: str
    at: str


async def test_dicts_and_objects_by_the_mapping_of_json(registry: InMemorySchemaRegistry) -> None:
    serializer = ProtobufSerializer[Any](registry, Order)
    await serializer.prepare("orders")
    expected = Order(id=7, customer="Ada")
    expected.at.seconds = 1
    for value in (
        {"id": 7, "customer": "Ada", "at": "1970-01-01T00:00:01Z"},
        Ordered(7, "Ada", "1970-01-01T00:00:01Z"),
    ):
        data = serializer.serialize("orders", value, [])
        assert data == id_bytes(2, [1]) + expected.SerializeToString()
    with pytest.raises(SerializationError, match=r'subject \'orders-value\'.*no field named "ID"'):
        serializer.serialize("orders", {"ID": 7}, [])


class OrderedModel(pydantic.BaseModel):
    id: int
    site: pydantic.HttpUrl = pydantic.Field(serialization_alias="customer")
    at: datetime


async def test_bytes_dates_and_urls_of_objects(registry: InMemorySchemaRegistry) -> None:
    serializer = ProtobufSerializer[Any](registry, BytesValue)
    await serializer.prepare("blobs")
    blob = serializer.serialize("blobs", b"abcd", [])
    assert BytesValue.FromString(blob[7:]).value == b"abcd"
    serializer = ProtobufSerializer[Any](registry, Order)
    await serializer.prepare("orders")
    expected = Order(id=7, customer="http://ada.example/")
    expected.at.seconds = 1
    at = datetime.fromtimestamp(1, UTC)
    for value in (
        {"id": 7, "customer": "http://ada.example/", "at": at},
        OrderedModel(id=7, site=pydantic.HttpUrl("http://ada.example/"), at=at),
    ):
        data = serializer.serialize("orders", value, [])
        assert data[7:] == expected.SerializeToString()


async def test_the_latest_schema_may_be_a_text_with_other_indexes(
    registry: InMemorySchemaRegistry,
) -> None:
    await registry.register("orders-value", Schema(TEXT.replace("message Payment", "message P"),
                                                   "PROTOBUF"))  # fmt: skip
    serializer = ProtobufSerializer[Any](registry, [Order, Payment], use_latest_version=True)
    await serializer.prepare("orders")
    assert serializer.serialize("orders", Order(), []) == id_bytes(1, [1])
    with pytest.raises(SerializationError, match=r"it contains no message 'shop\.Payment'"):
        serializer.serialize("orders", Payment(), [])


def test_the_names_in_a_text_are_those_of_the_descriptor() -> None:
    names = MessageNames(Schema(TEXT, "PROTOBUF"), "a schema")
    for message in (Payment, Order, Item):
        path = message_indexes(message.DESCRIPTOR, normalized=True)
        assert names.name(path) == message.DESCRIPTOR.full_name
        assert names.indexes(message.DESCRIPTOR.full_name) == path
    with pytest.raises(SerializationError, match=r"no message at the indexes \[2\]"):
        names.name((2,))


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: base64.b64encode(b).decode()))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        MessageNames(Schema(text, "PROTOBUF"), "a schema").name((0,))
    except SerializationError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.timeout(30)
@pytest.mark.parametrize("begin", ["/* ", '"\\', "'\\"])
def test_a_text_without_an_end_is_read_in_a_moment(begin: str) -> None:
    text = begin[0] + begin[1:] * 2 + begin * 300_000
    with pytest.raises(SerializationError, match="no message at the indexes"):
        MessageNames(Schema(text, "PROTOBUF"), "a schema").name((0,))


async def test_bytes_that_are_no_message(registry: InMemorySchemaRegistry) -> None:
    await ProtobufSerializer[Any](registry, Order).prepare("orders")
    deserializer = ProtobufDeserializer[Any](registry, Order)
    for payload in (b"\xff", b"\x0a\xff\x01", b"\x12\x02\xff\xff", b"\x0b" * 10_000):
        with pytest.raises(SerializationError):
            await deserializer.deserialize("orders", id_bytes(2, [1]) + payload)
    with pytest.raises(SerializationError, match="no message at the indexes"):
        await deserializer.deserialize("orders", id_bytes(2, [99]))


def test_a_class_of_no_message_is_refused(registry: InMemorySchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="not a generated message class"):
        ProtobufSerializer[Any](registry, dict)
    with pytest.raises(ConfigError, match="not a generated message class"):
        ProtobufDeserializer[Any](registry, dict)
