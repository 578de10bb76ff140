"""JSON with a schema, written and read with a registry in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from aioproducer.errors import SerializationError
from aioproducer.schema_registry import (
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Reference,
    Schema,
)
from aioproducer.schema_registry.wire_format import id_bytes
from aioproducer.serialization import json_documents
from aioproducer.testing import InMemorySchemaRegistry

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string"},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"price": {"type": "number"}}},
        },
    },
    "required": ["id"],
}


@pytest.fixture
def registry() -> InMemorySchemaRegistry:
    return InMemorySchemaRegistry()


@dataclass
class Order:
    id: int
    at: Any = "now"


class OrderModel(pydantic.BaseModel):
    id: int
    at: datetime
    key: UUID = pydantic.Field(alias="orderKey")


class Item(msgspec.Struct):
    price: float


class OrderStruct(msgspec.Struct):
    id: int
    items: list[Item] = []


@pytest.fixture(params=["orjson", "json"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs with orjson, and with the standard library alone."""
    if request.param == "json":
        monkeypatch.setattr(json_documents, "orjson", None)
    return str(request.param)


@pytest.mark.usefixtures("encoder")
async def test_values_of_all_kinds(registry: InMemorySchemaRegistry) -> None:
    serializer = JsonSchemaSerializer[Any](registry, ORDER)
    await serializer.prepare("orders")
    deserializer = JsonSchemaDeserializer[Any](registry)
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    for value, expected in (
        ({"id": 1, "items": [{"price": 2}]}, {"id": 1, "items": [{"price": 2}]}),
        (Order(2), {"id": 2, "at": "now"}),
        (Order(3, noon), {"id": 3, "at": "2026-01-02T12:00:00+00:00"}),
        (OrderStruct(4, [Item(1.5)]), {"id": 4, "items": [{"price": 1.5}]}),
        ({"id": 2**70}, {"id": 2**70}),
        ({"id": 1, "items": [Item(1.0)]}, {"id": 1, "items": [{"price": 1.0}]}),
    ):
        data = serializer.serialize("orders", value, [])
        assert data[:5] == id_bytes(1)
        assert json.loads(data[5:]) == expected
        assert await deserializer.deserialize("orders", data) == expected


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": "x"}, 'Order.id: "x" is not of type "integer" (type), found str \'x\''),
        ({"id": 1, "items": [{"price": 1}, {"price": "2"}]}, "Order.items[1].price"),
        ({}, '"id" is a required property'),
        ({"id": 1, "at": float("nan")}, "can't be written as JSON"),
        ({"id": 1, "items": [{"price": float("inf")}]}, "can't be written as JSON"),
        (Order(object()), "can't be written as JSON"),  # type: ignore[arg-type]
        ({"id": "x" * 1_000_000}, "… "),
        ({"id": 1, "at": b"bytes"}, "can't be written as JSON"),
    ],
)
async def test_the_field_that_does_not_fit_is_named(
    registry: InMemorySchemaRegistry, value: Any, text: str
) -> None:
    serializer = JsonSchemaSerializer[Any](registry, ORDER)
    await serializer.prepare("orders")
    with pytest.raises(SerializationError) as caught:
        serializer.serialize("orders", value, [])
    assert str(caught.value).startswith("topic 'orders', subject 'orders-value'")
    assert text in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.usefixtures("encoder")
async def test_a_decimal_is_validated_as_the_text_that_it_becomes(
    registry: InMemorySchemaRegistry,
) -> None:
    for type_, fits in (("string", True), ("number", False)):
        schema = {"type": "object", "properties": {"price": {"type": type_}}}
        serializer = JsonSchemaSerializer[Any](registry, schema)
        await serializer.prepare(type_)
        if fits:
            data = serializer.serialize(type_, {"price": Decimal("1.50")}, [])
            assert data[5:] == b'{"price":"1.50"}'
            continue
        with pytest.raises(SerializationError, match=r"value\.price: .* found str '1\.50'"):
            serializer.serialize(type_, {"price": Decimal("1.50")}, [])


@dataclass
class Reading:
    degrees: float

    def to_dict(self) -> dict[str, Any]:
        return {"celsius": self.degrees}


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("validate", [True, False])
async def test_a_dataclass_within_a_dict_is_converted_as_any_object(
    registry: InMemorySchemaRegistry, validate: bool
) -> None:
    serializer = JsonSchemaSerializer[Any](registry, {"type": "object"}, validate=validate)
    await serializer.prepare("readings")
    data = serializer.serialize("readings", {"last": Reading(1.5)}, [])
    assert json.loads(data[5:]) == {"last": {"celsius": 1.5}}
    with pytest.raises(SerializationError, match=r"JSON|range"):
        serializer.serialize("readings", {"last": Reading(float("nan"))}, [])


@pytest.mark.usefixtures("encoder")
async def test_deep_values_and_data_are_refused_not_fatal(registry: InMemorySchemaRegistry) -> None:
    tree = {"title": "Tree", "properties": {"next": {"$ref": "#"}}}
    serializer = JsonSchemaSerializer[Any](registry, tree)
    await serializer.prepare("orders")
    ring: dict[str, Any] = {}
    ring["next"] = ring
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"next": deep}
    for value in (ring, deep):
        with pytest.raises(SerializationError):
            serializer.serialize("orders", value, [])
    deserializer = JsonSchemaDeserializer[Any](registry)
    with pytest.raises(SerializationError):
        await deserializer.deserialize("orders", id_bytes(1) + b'{"next":' * 100_000)
    for data in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(SerializationError):
            await deserializer.deserialize("orders", id_bytes(1) + data)


async def test_models_bring_their_schema(registry: InMemorySchemaRegistry) -> None:
    serializer = JsonSchemaSerializer[Any](registry, subject_name_strategy="topic_record_name")
    for value in (
        OrderModel(id=1, at=datetime(2026, 1, 2, tzinfo=UTC), orderKey=UUID(int=3)),
        OrderStruct(1, [Item(1.0)]),
    ):
        with pytest.raises(SerializationError):
            serializer.serialize("orders", value, [])
        await serializer.prepare("orders")
        data = serializer.serialize("orders", value, [])
        read = await JsonSchemaDeserializer[Any](registry).deserialize("orders", data)
        assert read is not None
        assert msgspec.to_builtins(read) == read
        assert read["id"] == 1
    assert await registry.subjects() == ("orders-OrderModel", "orders-OrderStruct")


async def test_a_model_is_read_back(registry: InMemorySchemaRegistry) -> None:
    serializer = JsonSchemaSerializer[OrderModel](registry, OrderModel.model_json_schema())
    await serializer.prepare("orders")
    order = OrderModel(id=1, at=datetime(2026, 1, 2, tzinfo=UTC), orderKey=UUID(int=3))
    deserializer = JsonSchemaDeserializer(registry, from_dict=OrderModel.model_validate)
    data = serializer.serialize("orders", order, [])
    assert await deserializer.deserialize("orders", data) == order


CUSTOMER = Schema('{"title": "Customer", "properties": {"name": {"type": "string"}}}', "JSON")


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (None, "customer.json"),
        ("http://corp.example/schemas/order.json", "customer.json"),
        ("http://corp.example/schemas/order.json", "http://corp.example/schemas/customer.json"),
        ("order.json", "customer.json"),
    ],
)
async def test_references(registry: InMemorySchemaRegistry, base: str | None, name: str) -> None:
    await registry.register("customer", CUSTOMER)
    tree: dict[str, Any] = {"properties": {"customer": {"$ref": "customer.json"}}}
    if base is not None:
        tree["$id"] = base
    schema = Schema(json.dumps(tree), "JSON", references=(Reference(name, "customer", 1),))
    serializer = JsonSchemaSerializer[Any](registry, schema)
    await serializer.prepare("orders")
    assert serializer.serialize("orders", {"customer": {"name": "Ada"}}, [])
    with pytest.raises(SerializationError, match=r"value\.customer\.name"):
        serializer.serialize("orders", {"customer": {"name": 5}}, [])


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "/etc/passwd", "other.json"]
)
async def test_a_reference_without_a_schema_is_never_fetched(
    registry: InMemorySchemaRegistry, address: str
) -> None:
    serializer = JsonSchemaSerializer[Any](registry, {"$ref": address})
    await serializer.prepare("orders")
    with pytest.raises(SerializationError, match="jsonschema-rs refuses the schema"):
        serializer.serialize("orders", {}, [])


@pytest.mark.parametrize("text", ["", "{", "[" * 1000, '{"type": 5}', "[1]"])
async def test_a_schema_that_is_none(registry: InMemorySchemaRegistry, text: str) -> None:
    await registry.register("orders-value", Schema(text, "JSON"))
    serializer = JsonSchemaSerializer[Any](registry, use_latest_version=True)
    await serializer.prepare("orders")
    with pytest.raises(SerializationError):
        serializer.serialize("orders", {}, [])
