"""Values in Avro, written and read with a registry in memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import io
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import attrs
import fastavro
import msgspec
import pydantic
import pytest

from aioproducer.errors import (
    ClientClosedError,
    ConfigError,
    IncompatibleSchemaError,
    NotPreparedError,
    SchemaNotFoundError,
    SchemaRegistryUnavailableError,
    SerializationError,
)
from aioproducer.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    Reference,
    RegisteredSchema,
    Schema,
    SchemaRegistry,
    schema_serializer,
)
from aioproducer.schema_registry.wire_format import HEADERS, id_bytes
from aioproducer.testing import InMemorySchemaRegistry
from tests.support.waiting import until

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "count", "type": "int", "default": 1},
    ],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
FIELDS = {
    "id": 7,
    "customer": "Ada",
    "items": [{"sku": "a", "price": 2.5, "count": 1}, {"sku": "b", "price": 1.0, "count": 3}],
    "note": None,
}


@dataclass
class Item:
    sku: str
    price: float
    count: int = 1


@dataclass(slots=True)
class Order:
    id: int
    customer: str
    items: list[Item] = field(default_factory=list)
    note: str | None = None


class OrderModel(pydantic.BaseModel):
    id: int
    customer: str
    items: list[Item]
    note: str | None = None


class ItemStruct(msgspec.Struct):
    sku: str
    price: float
    count: int = 1


class OrderStruct(msgspec.Struct):
    id: int
    name_of_customer: str = msgspec.field(name="customer")
    items: list[ItemStruct] = msgspec.field(default_factory=list)
    note: str | None = None


@attrs.define
class OrderAttrs:
    id: int
    customer: str
    items: list[Item]
    note: str | None = None


class OrderOfItsOwn:
    def to_dict(self) -> dict[str, Any]:
        return {**FIELDS, "items": [Item("a", 2.5), Item("b", 1.0, 3)]}


ITEMS = [Item("a", 2.5), Item("b", 1.0, 3)]
ORDERS = [
    FIELDS,
    {**FIELDS, "items": ITEMS},
    Order(7, "Ada", ITEMS),
    OrderModel(id=7, customer="Ada", items=ITEMS),
    OrderStruct(7, "Ada", [ItemStruct("a", 2.5), ItemStruct("b", 1.0, 3)]),
    OrderAttrs(7, "Ada", ITEMS),
    OrderOfItsOwn(),
]


@pytest.fixture
def registry() -> InMemorySchemaRegistry:
    return InMemorySchemaRegistry()


def bare(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


async def prepared(serializer: AvroSerializer[Any], topic: str = "orders") -> AvroSerializer[Any]:
    await serializer.prepare(topic)
    return serializer


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
async def test_objects_of_all_kinds_become_records(
    registry: InMemorySchemaRegistry, order: Any
) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    data = serializer.serialize("orders", order, [])
    assert data == id_bytes(1) + bare(ORDER, FIELDS)
    assert await AvroDeserializer[Any](registry).deserialize("orders", data) == FIELDS


async def test_a_function_of_the_user_converts(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(
        AvroSerializer(registry, ORDER, to_dict=lambda number: {**FIELDS, "id": number})
    )
    deserializer = AvroDeserializer(registry, from_dict=lambda fields: fields["id"])
    data = serializer.serialize("orders", 12, [])
    assert await deserializer.deserialize("orders", data) == 12


async def test_nothing_is_asked_while_records_are_written(registry: InMemorySchemaRegistry) -> None:
    serializer = AvroSerializer[Any](registry, ORDER)
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", FIELDS, [])
    await serializer.prepare("orders")
    requests = len(registry.requests)
    serializer.serialize("orders", FIELDS, [])
    serializer.serialize("orders", Order(1, "Ada"), [])
    await serializer.prepare("orders")
    assert len(registry.requests) == requests


async def test_the_id_in_a_header(registry: InMemorySchemaRegistry) -> None:
    serializer = AvroSerializer[Any](registry, ORDER, schema_id_location="header")
    keys = serializer.for_field("key")
    await serializer.prepare("orders")
    await keys.prepare("orders")
    headers: list[tuple[str, bytes | None]] = []
    data = serializer.serialize("orders", FIELDS, headers)
    key = keys.serialize("orders", FIELDS, headers)
    assert data == key == bare(ORDER, FIELDS)
    assert [name for name, _ in headers] == [HEADERS["value"], HEADERS["key"]]
    deserializer = AvroDeserializer[Any](registry)
    assert await deserializer.deserialize("orders", data, headers) == FIELDS
    assert await deserializer.for_field("key").deserialize("orders", key, headers) == FIELDS
    with pytest.raises(SerializationError):
        serializer.serialize("orders", {}, headers)
    assert len(headers) == 2


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (
            {**FIELDS, "items": [{"sku": "a", "price": "cheap"}]},
            "Order.items[0].price: expected double, found str 'cheap'",
        ),
        (
            dataclasses.replace(Order(7, "Ada"), items=[Item("a", 1.0, None)]),  # type: ignore[arg-type]
            "Order.items[0].count: expected int, found None",
        ),
        (
            {**FIELDS, "items": [{"sku": "a", "price": 1.0, "count": 2**31}]},
            "Order.items[0].count: expected int, found int 2147483648",
        ),
        ({**FIELDS, "id": 2**63}, "Order.id: expected long, found int 9223372036854775808"),
        ({**FIELDS, "note": 5}, "Order.note: expected null | string, found int 5"),
        ({**FIELDS, "customer": None}, "Order.customer: expected string, found None"),
        ({"id": 1}, "Order.customer: expected string, found no value, and the schema has no"),
        ({**FIELDS, "customer": "x\ud800"}, "Order.customer: expected string, found str"),
        ([1], "Order: expected record shop.Order, found list [1]"),
        (object(), "Order: expected record shop.Order, found object <object object"),
    ],
)
async def test_the_field_that_does_not_fit_is_named(
    registry: InMemorySchemaRegistry, order: Any, text: str
) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    with pytest.raises(SerializationError) as caught:
        serializer.serialize("orders", order, [])
    message = str(caught.value)
    assert message.startswith("topic 'orders', subject 'orders-value': the value does not fit")
    assert text in message


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (
            {"type": "array", "items": "int"},
            [1] * 300_000 + [2**40],
            r"value\[300000\]: expected int",
        ),
        (
            [ITEM, "null"],
            ("Item", {"sku": "a", "price": 1.0, "count": 2**31}),
            r"count: expected int",
        ),
        (["null", "boolean"], ("boolean", "yes"), "value: expected boolean, found str 'yes'"),
        ("long", 1.9, "value: expected long, found float 1.9"),
        ("long", Decimal("1.9"), "value: expected long, found Decimal"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            1.9,
            "expected long .timestamp-millis",
        ),
        ({"type": "int", "logicalType": "date"}, 1.9, "expected int .date."),
    ],
    ids=str,
)
async def test_a_value_that_fastavro_would_cut_is_refused(
    registry: InMemorySchemaRegistry, schema: Any, value: Any, text: str
) -> None:
    serializer = await prepared(AvroSerializer(registry, schema))
    with pytest.raises(SerializationError, match=text):
        serializer.serialize("orders", value, [])


class Index:
    """An integer as numpy has some."""

    def __index__(self) -> int:
        return 5

    __int__ = __index__


@pytest.mark.timeout(30)
async def test_integers_of_other_classes_are_written(registry: InMemorySchemaRegistry) -> None:
    for number, kind in enumerate(("int", "long"), 1):
        serializer = await prepared(AvroSerializer(registry, kind), kind)
        assert serializer.serialize(kind, Index(), []) == id_bytes(number) + b"\x0a"
    many = {"type": "array", "items": "int"}
    serializer = await prepared(AvroSerializer(registry, many), "many")
    data = serializer.serialize("many", [Index()] * 300_000, [])
    assert data == id_bytes(3) + bare(many, [5] * 300_000)
    serializer = await prepared(AvroSerializer(registry, ORDER))
    with pytest.raises(SerializationError, match=r"Order\.customer: expected string, found int 5"):
        serializer.serialize("orders", {**FIELDS, "id": Index(), "customer": 5}, [])


async def test_a_key_that_does_not_fit_is_called_a_key(registry: InMemorySchemaRegistry) -> None:
    keys = AvroSerializer[Any](registry, "long").for_field("key")
    await keys.prepare("orders")
    with pytest.raises(SerializationError, match="schema 1: key: expected long, found str 'x'"):
        keys.serialize("orders", "x", [])


async def test_huge_values_are_shortened(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    for huge in ("x" * 1_000_000, ["x" * 1000] * 100_000, b"x" * 1_000_000):
        with pytest.raises(SerializationError) as caught:
            serializer.serialize("orders", {**FIELDS, "id": huge}, [])
        assert len(str(caught.value)) < 400


async def test_fields_without_a_place_are_left_out_unless_strict(
    registry: InMemorySchemaRegistry,
) -> None:
    more = {**FIELDS, "colour": "red"}
    serializer = await prepared(AvroSerializer(registry, ORDER))
    assert serializer.serialize("orders", more, []) == id_bytes(1) + bare(ORDER, FIELDS)
    strict = await prepared(AvroSerializer(registry, ORDER, strict=True))
    assert strict.serialize("orders", FIELDS, []) == id_bytes(1) + bare(ORDER, FIELDS)
    with pytest.raises(SerializationError, match="found 'colour'"):
        strict.serialize("orders", more, [])


class Payment(pydantic.BaseModel):
    id: int
    amount: Decimal


PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
    ],
}


async def test_several_event_types_in_a_topic(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(
        AvroSerializer(
            registry,
            {Order: ORDER, Payment: PAYMENT},
            subject_name_strategy="topic_record_name",
        )
    )
    assert await registry.subjects() == ("orders-shop.Order", "orders-shop.Payment")
    data = serializer.serialize("orders", Payment(id=1, amount=Decimal("2.50")), [])
    deserializer = AvroDeserializer[Any](registry)
    assert await deserializer.deserialize("orders", data) == {"id": 1, "amount": Decimal("2.50")}
    serializer.serialize("orders", Order(1, "Ada"), [])
    with pytest.raises(SerializationError, match="there are schemas for Order, Payment"):
        serializer.serialize("orders", 5, [])


class WithSchema(msgspec.Struct):
    id: int
    __avro_schema__ = {
        "type": "record",
        "name": "WithSchema",
        "fields": [{"name": "id", "type": "int"}],
    }


class Placed(pydantic.BaseModel):
    id: int


class Closed(pydantic.BaseModel):
    id: int
    site: pydantic.HttpUrl = pydantic.HttpUrl("http://shop.example/")


class Happened(pydantic.BaseModel):
    event: Placed | Closed
    earlier: list[Placed | Closed] = []


@dataclass
class HappenedAsADataclass:
    event: Placed | Closed
    earlier: list[Placed | Closed] = field(default_factory=list)


@pytest.mark.parametrize("happened", [Happened, HappenedAsADataclass])
async def test_the_class_of_a_model_chooses_the_record_of_a_union(
    registry: InMemorySchemaRegistry, happened: Any
) -> None:
    def record(name: str, *more: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}, *more]}

    fields = [
        {"name": "event", "type": [record("Closed", {"name": "site", "type": "string",
                                                     "default": ""}), record("Placed")]},
        {"name": "earlier", "type": {"type": "array", "items": ["Closed", "Placed"]}},
    ]  # fmt: skip
    schema = {"type": "record", "name": "Happened", "fields": fields}
    serializer = AvroSerializer[Any](registry, schema)
    await serializer.prepare("events")
    data = serializer.serialize("events", happened(event=Placed(id=1), earlier=[Closed(id=2)]), [])
    read = await AvroDeserializer[Any](registry, return_record_name=True).deserialize(
        "events", data
    )
    assert read == {
        "event": ("Placed", {"id": 1}),
        "earlier": [("Closed", {"id": 2, "site": "http://shop.example/"})],
    }


async def test_a_schema_that_the_class_has_is_seen_with_the_first_value(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = await prepared(AvroSerializer(registry, subject_name_strategy="record_name"))
    assert registry.requests == []
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", WithSchema(1), [])
    await serializer.prepare("orders")
    assert serializer.serialize("orders", WithSchema(1), []) == id_bytes(1) + b"\x02"
    assert await registry.subjects() == ("WithSchema",)
    with pytest.raises(SerializationError, match="a dict has no schema"):
        serializer.serialize("orders", {"id": 1}, [])


async def test_a_refused_schema_fails_its_own_records_alone() -> None:
    registry = InMemorySchemaRegistry(
        judge=lambda schema, _: ["no payments here"] if "Payment" in schema.text else []
    )
    await registry.register("orders-value", Schema('"string"'))
    serializer = await prepared(AvroSerializer(registry, {Order: ORDER, Payment: PAYMENT}))
    serializer.serialize("orders", Order(1, "Ada"), [])
    for _ in range(2):
        with pytest.raises(IncompatibleSchemaError, match="no payments here"):
            serializer.serialize("orders", Payment(id=1, amount=Decimal(1)), [])
    requests = len(registry.requests)
    await serializer.prepare("orders")
    assert len(registry.requests) == requests


async def test_a_failure_is_forgotten_after_a_while(
    registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(schema_serializer, "_clock", lambda: now)
    serializer = await prepared(
        AvroSerializer(registry, ORDER, auto_register_schemas=False), "orders"
    )
    with pytest.raises(SchemaNotFoundError):
        serializer.serialize("orders", FIELDS, [])
    await registry.register("orders-value", serializer._sources.local(None).schema)  # type: ignore[union-attr]
    now = 31.0
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", FIELDS, [])
    await serializer.prepare("orders")
    assert serializer.serialize("orders", FIELDS, [])[:5] == id_bytes(1)


async def test_a_registry_that_is_down_is_asked_again(registry: InMemorySchemaRegistry) -> None:
    serializer = AvroSerializer[Any](registry, ORDER)
    registry.fail_with(SchemaRegistryUnavailableError("down"))
    for _ in range(2):
        with pytest.raises(SchemaRegistryUnavailableError):
            await serializer.prepare("orders")
        with pytest.raises(NotPreparedError):
            serializer.serialize("orders", FIELDS, [])
    registry.fail_with(None)
    await serializer.prepare("orders")
    assert serializer.serialize("orders", FIELDS, [])


WIDER = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "country", "type": "string", "default": "?"}],
}


async def test_the_latest_version_is_written_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(schema_serializer, "_clock", lambda: now)
    registry = InMemorySchemaRegistry(latest_ttl=0.0)
    await registry.register("orders-value", Schema(json.dumps(ORDER)))
    serializer = await prepared(AvroSerializer(registry, use_latest_version=True))
    order = {**FIELDS, "country": "DE"}
    assert serializer.serialize("orders", order, []) == id_bytes(1) + bare(ORDER, FIELDS)
    await registry.register("orders-value", Schema(json.dumps(WIDER)))
    now = 1.5
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", order, [])
    await serializer.prepare("orders")
    # The version that is known is written until the answer is there.
    assert serializer.serialize("orders", order, []) == id_bytes(1) + bare(ORDER, FIELDS)
    wider = id_bytes(2) + bare(WIDER, order)
    await until(lambda: serializer.serialize("orders", order, []) == wider)


async def test_a_latest_version_that_the_client_has_had_for_a_while_is_used_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(schema_serializer, "_clock", lambda: now)
    registry = InMemorySchemaRegistry(latest_ttl=100.0)
    await registry.register("orders-value", Schema(json.dumps(ORDER)))
    await registry.latest("orders-value")
    registry._latest_ttl = 300.0  # as if 200 of its 300 seconds had passed
    serializer = await prepared(AvroSerializer(registry, use_latest_version=True))
    now = 90.0
    assert serializer.serialize("orders", FIELDS, []) == id_bytes(1) + bare(ORDER, FIELDS)
    now = 100.0
    with pytest.raises(NotPreparedError, match="must be requested again"):
        serializer.serialize("orders", FIELDS, [])


async def test_a_latest_version_that_a_subclass_finds_itself_is_used_for_the_whole_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pinned(InMemorySchemaRegistry):
        async def latest(self, subject: str) -> RegisteredSchema:
            return await self.version(subject, 1)

    now = 0.0
    monkeypatch.setattr(schema_serializer, "_clock", lambda: now)
    registry = Pinned(latest_ttl=100.0)
    await registry.register("orders-value", Schema(json.dumps(ORDER)))
    serializer = await prepared(AvroSerializer(registry, use_latest_version=True))
    now = 99.0
    assert serializer.serialize("orders", FIELDS, []) == id_bytes(1) + bare(ORDER, FIELDS)
    now = 100.0
    with pytest.raises(NotPreparedError, match="must be requested again"):
        serializer.serialize("orders", FIELDS, [])


async def test_a_thread_that_serializes_while_a_later_version_arrives_does_not_keep_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = InMemorySchemaRegistry(latest_ttl=0.0)
    await registry.register("orders-value", Schema(json.dumps(ORDER)))
    serializer = await prepared(AvroSerializer(registry, use_latest_version=True))
    await registry.register("orders-value", Schema(json.dumps(WIDER)))
    order = {**FIELDS, "country": "DE"}
    state, framed = serializer._state("orders"), serializer._framed

    def slowly(ready: Any, key: Any, kind: type) -> Any:
        made = framed(ready, key, kind)
        monkeypatch.undo()  # as the event loop's thread does, between two steps of this one
        loop = asyncio.new_event_loop()
        loop.run_until_complete(serializer._load("orders", state, key))
        loop.close()
        return made

    monkeypatch.setattr(serializer, "_framed", slowly)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(serializer.serialize, "orders", order, []).result()
    assert first == id_bytes(1) + bare(ORDER, FIELDS)
    assert serializer.serialize("orders", order, []) == id_bytes(2) + bare(WIDER, order)


async def test_a_registry_that_is_down_does_not_take_the_latest_version_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    monkeypatch.setattr(schema_serializer, "_clock", lambda: now)
    registry = InMemorySchemaRegistry(latest_ttl=0.0)
    await registry.register("orders-value", Schema(json.dumps(ORDER)))
    serializer = await prepared(AvroSerializer(registry, use_latest_version=True))
    registry.fail_with(SchemaRegistryUnavailableError("down"))
    now = 1.5
    with pytest.raises(NotPreparedError):
        serializer.serialize("orders", FIELDS, [])
    await serializer.prepare("orders")
    await until(lambda: "the previous latest schema: down" in caplog.text)
    assert serializer.serialize("orders", FIELDS, []) == id_bytes(1) + bare(ORDER, FIELDS)
    await serializer.close()


async def test_given_ids_and_versions(registry: InMemorySchemaRegistry) -> None:
    for schema in (ORDER, WIDER):
        await registry.register("orders-value", Schema(json.dumps(schema)))
    by_id = await prepared(AvroSerializer(registry, use_schema_id=2))
    by_version = await prepared(AvroSerializer(registry, use_schema_version=1))
    assert by_id.serialize("orders", FIELDS, []) == id_bytes(2) + bare(WIDER, FIELDS)
    assert by_version.serialize("orders", FIELDS, []) == id_bytes(1) + bare(ORDER, FIELDS)


@pytest.mark.parametrize(
    "options",
    [
        {"use_latest_version": True, "use_schema_id": 1},
        {"auto_register_schemas": True, "use_latest_version": True},
        {"use_schema_id": 0},
        {"use_schema_version": "1"},
        {"subject_name_strategy": "topics"},
        {"schema_id_location": "value"},
        {"use_latest": True},
    ],
)
def test_options_that_contradict_each_other(
    registry: InMemorySchemaRegistry, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        AvroSerializer[Any](registry, ORDER, **options)


async def test_named_types_by_reference(registry: InMemorySchemaRegistry) -> None:
    await registry.register("item", Schema(json.dumps({**ITEM, "namespace": "shop"})))
    await registry.register("payment", Schema(json.dumps(PAYMENT)))
    fields = [
        ORDER["fields"][0],
        {"name": "items", "type": {"type": "array", "items": "shop.Item"}},
    ]
    references = (Reference("shop.Item", "item", 1), Reference("shop.Payment", "payment", 1))
    union = Schema(
        json.dumps([{"type": "record", "name": "shop.Order", "fields": fields}, "shop.Payment"]),
        references=references,
    )
    serializer = await prepared(AvroSerializer(registry, union))
    deserializer = AvroDeserializer[Any](registry, return_record_name=True)
    for value, name in (
        (Order(1, "Ada", [Item("a", 1.0)]), "shop.Order"),
        (Payment(id=1, amount=Decimal(3)), "shop.Payment"),
        (("shop.Payment", {"id": 2, "amount": Decimal(1)}), "shop.Payment"),
    ):
        read = await deserializer.deserialize("orders", serializer.serialize("orders", value, []))
        assert isinstance(read, tuple)
        assert read[0] == name


class Colour(enum.Enum):
    RED = "RED"
    BLUE = 2


async def test_enums_and_logical_types(registry: InMemorySchemaRegistry) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "colour", "type": {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }

    @dataclass
    class R:
        colour: Colour
        at: datetime
        id: UUID

    serializer = await prepared(AvroSerializer(registry, schema))
    value = R(Colour.RED, datetime(2026, 1, 2, tzinfo=UTC), UUID(int=5))
    data = serializer.serialize("orders", value, [])
    read = await AvroDeserializer[Any](registry).deserialize("orders", data)
    assert read == {"colour": "RED", "at": value.at, "id": value.id}
    with pytest.raises(SerializationError, match=r"R\.at: expected long"):
        serializer.serialize("orders", {"colour": "RED", "at": "now", "id": "x"}, [])


async def test_plain_bytes_stand_without_a_length_as_in_java(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = await prepared(AvroSerializer(registry, "bytes"))
    data = serializer.serialize("orders", b"abc", [])
    assert data == id_bytes(1) + b"abc"
    assert await AvroDeserializer[Any](registry).deserialize("orders", data) == b"abc"
    with pytest.raises(SerializationError, match="expected bytes, found str 'abc'"):
        serializer.serialize("orders", "abc", [])


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"], "default": None}],
}


async def test_deep_values_are_refused_not_fatal(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(AvroSerializer(registry, NODE))
    ring: dict[str, Any] = {}
    ring["next"] = ring
    deep: dict[str, Any] = {"next": None}
    for _ in range(100_000):
        deep = {"next": deep}
    for value in (ring, deep):
        with pytest.raises(SerializationError, match="nested more than 200 levels deep"):
            serializer.serialize("orders", value, [])


async def read_with(
    registry: InMemorySchemaRegistry, writer: Any, payload: bytes, **more: Any
) -> Any:
    made = await registry.register("any", Schema(json.dumps(writer)))
    deserializer = AvroDeserializer[Any](registry, **more)
    return await deserializer.deserialize("orders", id_bytes(made.id) + payload)


BOMBS = [
    ("deep", NODE, b"\x02" * 100_000 + b"\x00", {}),
    ("nulls", {"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", {}),
    ("negative", {"type": "array", "items": "null"}, b"\xff" * 9 + b"\x01\x00\x00", {}),
    (
        "empty records",
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        b"\x80\x80\x80\x80\x80\x80\x80\x40\x00",
        {},
    ),
    (
        "skipped booleans",
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "flags", "type": {"type": "array", "items": "boolean"}}],
        },
        b"\x80\x80\x80\x80\x80\x80\x80\x40" + b"\x01" * 50,
        {"schema": {"type": "record", "name": "R", "fields": []}},
    ),
    (
        "decimal",
        {
            "type": "record",
            "name": "D",
            "fields": [{"name": "d", "type": PAYMENT["fields"][1]["type"]}],  # type: ignore[index]
        },
        b"\x80\xe8\x92\x26" + b"\x7f" * 40_000_000,
        {},
    ),
    ("endless number", "long", b"\xff" * 100, {}),
    ("branch", ["null", "long"], b"\x08", {}),
    ("negative length", "string", b"\x03abc", {}),
    ("short", ORDER, b"\x0e\x06A", {}),
    ("no text", "string", b"\x02\xff", {}),
    ("date", {"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", {}),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("schema", "payload", "more"), [each[1:] for each in BOMBS],
                         ids=[each[0] for each in BOMBS])  # fmt: skip
async def test_data_that_would_do_harm_are_refused(
    registry: InMemorySchemaRegistry, schema: Any, payload: bytes, more: dict[str, Any]
) -> None:
    with pytest.raises(SerializationError, match="topic 'orders': a value of"):
        await read_with(registry, schema, payload, **more)


async def test_recursive_data_of_a_usual_depth_are_read(registry: InMemorySchemaRegistry) -> None:
    value: dict[str, Any] = {"next": None}
    for _ in range(100):
        value = {"next": value}
    assert await read_with(registry, NODE, bare(NODE, value)) == value
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "trees", "type": {"type": "array", "items": "Tree"}}],
    }
    wide: dict[str, Any] = {"trees": [{"trees": []}] * 10_000}
    assert await read_with(registry, tree, bare(tree, wide)) == wide


async def test_a_readers_schema_gives_fields_and_defaults(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    data = serializer.serialize("orders", FIELDS, [])
    read = await AvroDeserializer[Any](registry, WIDER).deserialize("orders", data)
    assert read == {**FIELDS, "country": "?"}


async def test_a_union_s_default_is_a_value_of_the_branch_that_takes_it(
    registry: InMemorySchemaRegistry,
) -> None:
    day: Any = {"type": "int", "logicalType": "date"}
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "b", "type": "bytes"}]}
    fields: list[tuple[str, Any, Any, Any]] = [
        ("day", ["null", day], 3, date(1970, 1, 4)),
        ("code", ["null", "bytes"], "\u00ff", b"\xff"),
        ("mark", [{"type": "fixed", "name": "Mark", "size": 1}, "bytes"], "ab", b"ab"),
        ("text", ["bytes", "string"], "\u20ac", "\u20ac"),
        ("kind", [{"type": "enum", "name": "Kind", "symbols": ["A"]}, "bytes"], "B", b"B"),
        ("days", ["null", {"type": "array", "items": day}], [3], [date(1970, 1, 4)]),
        (
            "more",
            ["null", {"type": "map", "values": day}, inner],
            {"d": 3},
            {"d": date(1970, 1, 4)},
        ),
        ("inner", ["null", inner, {"type": "map", "values": day}], {"b": "\u00ff"}, {"b": b"\xff"}),
        ("none", ["bytes", "null"], None, None),
        ("long", [day, "long"], 2**40, 2**40),
    ]
    expected = {name: value for name, _, _, value in fields}
    schema: Any = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            *({"name": name, "type": kind, "default": given} for name, kind, given, _ in fields),
        ],
    }
    schema["fields"][8]["type"][1] = "Inner"  # it is defined above
    old = {**schema, "fields": schema["fields"][:1]}
    data = (await prepared(AvroSerializer(registry, old))).serialize("orders", {"id": 1}, [])
    read = await AvroDeserializer[Any](registry, schema).deserialize("orders", data)
    assert read == {"id": 1, **expected}
    serializer = await prepared(AvroSerializer(registry, schema))
    data = serializer.serialize("orders", {"id": 1}, [])
    assert await AvroDeserializer[Any](registry).deserialize("orders", data) == read


async def test_a_changed_default_stays_with_its_record(registry: InMemorySchemaRegistry) -> None:
    tags = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
    new = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, tags]}
    items = {"type": "record", "name": "Items", "fields": [
        {"name": "items", "type": {"type": "array", "items": ["null", new]}}]}  # fmt: skip
    old = json.loads(json.dumps(items))
    del old["fields"][0]["type"]["items"][1]["fields"][1]
    serializer = await prepared(AvroSerializer(registry, old))
    data = serializer.serialize("orders", {"items": [{"id": 1}, None, {"id": 2}]}, [])
    for names in (False, True):
        deserializer = AvroDeserializer[Any](registry, items, return_record_name=names)
        for _ in range(2):
            read: Any = await deserializer.deserialize("orders", data)
            first, _none, second = read["items"]
            fields = first[1] if names else first
            assert fields == {"id": 1, "tags": []}
            fields["tags"].append("new")
            assert (second[1] if names else second) == {"id": 2, "tags": []}


async def test_a_failure_of_a_schema_names_the_topic_of_the_record(
    registry: InMemorySchemaRegistry,
) -> None:
    made = await registry.register("json-value", Schema("{}", "JSON"))
    deserializer = AvroDeserializer[Any](registry)
    for topic in ("orders", "payments"):
        with pytest.raises(SerializationError, match=f"topic '{topic}', schema 1: it has the type"):
            await deserializer.deserialize(topic, id_bytes(made.id) + b"x")


async def test_an_unknown_schema_is_asked_for_once(registry: InMemorySchemaRegistry) -> None:
    deserializer = AvroDeserializer[Any](registry)
    with pytest.raises(NotPreparedError):
        deserializer.decode("orders", id_bytes(9) + b"x")
    for _ in range(3):
        with pytest.raises(SchemaNotFoundError):
            await deserializer.deserialize("orders", id_bytes(9) + b"x")
    assert len(registry.requests) == 1
    assert await deserializer.deserialize("orders", None) is None


async def test_consumers_without_an_event_loop(registry: InMemorySchemaRegistry) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    data = serializer.serialize("orders", FIELDS, [])
    with AvroDeserializer[Any](registry).blocking() as deserializer:
        assert deserializer(data) == FIELDS
        assert deserializer(data, SimpleNamespace(topic="orders", headers=None)) == FIELDS
        assert deserializer.deserialize("orders", (), data) == FIELDS
        assert deserializer(None) is None
        with pytest.raises(SchemaNotFoundError):
            deserializer(id_bytes(99))
    with pytest.raises(Exception, match="closed"):
        deserializer(id_bytes(98))


FIRST_ITEM = {"sku": "a", "price": 2.5, "count": 1}


async def test_the_context_of_a_consumer_says_that_it_is_a_key(
    registry: InMemorySchemaRegistry,
) -> None:
    headers: list[tuple[str, bytes | None]] = []
    written = {}
    serializer = AvroSerializer[Any](registry, ITEM, schema_id_location="header")
    keys = AvroSerializer[Any](registry, "long", schema_id_location="header").for_field("key")
    for field_, each, value in (("value", serializer, FIRST_ITEM), ("key", keys, 5)):
        written[field_] = (await prepared(each)).serialize("orders", value, headers)
    with AvroDeserializer[Any](registry).blocking() as deserializer:
        for field_, value in (("key", 5), ("value", FIRST_ITEM)):
            context = SimpleNamespace(topic="orders", field=field_, headers=headers)
            assert deserializer(written[field_], context) == value


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork()")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_process_has_a_thread_of_its_own(registry: InMemorySchemaRegistry) -> None:
    data = (await prepared(AvroSerializer(registry, ORDER))).serialize("orders", FIELDS, [])
    number = (await prepared(AvroSerializer(registry, "long"), "numbers")).serialize(
        "numbers", 5, []
    )
    with AvroDeserializer[Any](registry).blocking(timeout=5) as deserializer:
        assert deserializer(data) == FIELDS
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                status = 0 if deserializer(number) == 5 else 2
            os._exit(status)
        assert ended(child) == 0


def test_close_ends_the_wait_for_a_schema(registry: InMemorySchemaRegistry) -> None:
    asked = threading.Event()

    class NeverAnswers(InMemorySchemaRegistry):
        async def by_id(self, schema_id: int, *, subject: str | None = None) -> Any:
            asked.set()
            await asyncio.Event().wait()

    deserializer = AvroDeserializer[Any](NeverAnswers()).blocking()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(deserializer, id_bytes(1) + b"x")
        assert asked.wait(10)
        deserializer.close()
        with pytest.raises(ClientClosedError):
            waiting.result(10)


async def test_serializers_are_pickled_without_what_they_fetched() -> None:
    serializer = AvroSerializer[Any](SchemaRegistry("http://localhost:9"), ORDER)
    deserializer = AvroDeserializer[Any](SchemaRegistry("http://localhost:9"))
    for each in (serializer, serializer.for_field("key"), deserializer):
        assert type(pickle.loads(pickle.dumps(each))) is type(each)
    copied = pickle.loads(pickle.dumps(serializer))
    with pytest.raises(NotPreparedError):
        copied.serialize("orders", FIELDS, [])


@pytest.mark.parametrize("day", [2**31, -(2**31) - 1])
async def test_a_number_that_is_no_date(registry: InMemorySchemaRegistry, day: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}}]}  # fmt: skip
    serializer = await prepared(AvroSerializer(registry, schema))
    with pytest.raises(SerializationError, match=r"R\.day: expected int"):
        serializer.serialize("orders", {"day": day}, [])
    assert serializer.serialize("orders", {"day": date(2026, 1, 2)}, [])


async def test_schemas_of_any_depth_are_used_or_refused(registry: InMemorySchemaRegistry) -> None:
    for depth in (50, 150, 250, 400):
        text = '{"type": "array", "items": ' * depth + '"int"' + "}" * depth
        serializer = await prepared(AvroSerializer(registry, text), f"deep-{depth}")
        value: Any = [1]
        for _ in range(depth - 1):
            value = [value]
        try:
            data = serializer.serialize(f"deep-{depth}", value, [])
        except SerializationError as error:
            assert depth > 150, error  # noqa: PT017
            continue
        assert data[5:] == b"\x02" * (depth + 1) + b"\x00" * depth
        assert await AvroDeserializer[Any](registry).deserialize("deep", data) == value


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, "not a name"])
def test_a_text_that_is_no_schema_is_refused_at_once(
    registry: InMemorySchemaRegistry, text: str
) -> None:
    with pytest.raises(ConfigError, match="the text of an Avro schema is not JSON"):
        AvroSerializer(registry, text)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("fields", [[], [{"name": "id", "type": "long"}]])
async def test_records_that_double_at_each_level_are_refused(
    registry: InMemorySchemaRegistry, fields: list[Any]
) -> None:
    schema: dict[str, Any] = {"type": "record", "name": "R0", "fields": fields}
    for level in range(1, 60):
        schema = {"type": "record", "name": f"R{level}", "fields": [
            {"name": "left", "type": schema},
            {"name": "right", "type": f"R{level - 1}"}]}  # fmt: skip
    for each in (schema, {"type": "array", "items": schema}):
        made = await registry.register("orders-value", Schema(json.dumps(each)))
        with pytest.raises(SerializationError, match=r"schema \d: .* has more than 10000 rec"):
            await AvroDeserializer[Any](registry).deserialize("orders", id_bytes(made.id) + b"\2")


async def test_objects_within_dicts_are_found_where_they_do_not_fit(
    registry: InMemorySchemaRegistry,
) -> None:
    serializer = await prepared(AvroSerializer(registry, ORDER))
    order = {**FIELDS, "items": [Item("a", 1.0), Item("b", 1.0, 2**40)]}
    with pytest.raises(SerializationError, match=r"Order\.items\[1\]\.count: expected int, found"):
        serializer.serialize("orders", order, [])
