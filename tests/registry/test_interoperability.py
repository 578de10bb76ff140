"""Confluent's own deserializers read our values from a real registry, and we read theirs."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import (
    Schema as TheirSchema,
)
from confluent_kafka.schema_registry import (
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import (
    ProtobufDeserializer as TheirProtobufDeserializer,
)
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from aioproducer.errors import (
    IncompatibleSchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SerializationError,
)
from aioproducer.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    Schema,
    SchemaRegistry,
)
from aioproducer.testing import SchemaRegistryServer
from tests.support.protobuf_messages import Item, Payment, an_order

pytestmark = pytest.mark.registry

ITEM: Final = {
    "type": "record",
    "name": "Item",
    "namespace": "shop",
    "fields": [{"name": "sku", "type": "string"}, {"name": "price", "type": "double"}],
}
AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "total",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "default": "\x00",
        },
    ],
}
ORDER: Final = {"id": 7, "items": [{"sku": "a", "price": 2.5}], "note": "soon"}
JSON: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}

numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic of the test's own, whose subjects no other test has."""
    return f"orders-{next(numbers)}"


@pytest.fixture
async def registry(registry_server: SchemaRegistryServer) -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry(registry_server.url) as client:
        yield client


@pytest.fixture
def theirs(registry_server: SchemaRegistryServer) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry_server.url}) as client:
        yield client


def context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


PLAIN: Final = {"subject.name.strategy.type": "TOPIC"}


async def test_avro_both_ways(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    serializer = AvroSerializer[Any](registry, AVRO)
    await serializer.prepare(topic)
    ours = serializer.serialize(topic, ORDER, [])
    read = TheirAvroDeserializer(theirs, conf=PLAIN)(ours, context(topic))
    assert isinstance(read, dict)
    assert read["items"] == ORDER["items"]
    write = TheirAvroSerializer(theirs, json.dumps(AVRO), conf=PLAIN)
    data = write({**ORDER, "total": Decimal(0)}, context(f"{topic}-other"))
    assert data is not None
    back = await AvroDeserializer[Any](registry).deserialize(topic, data)
    assert back == {**ORDER, "total": Decimal(0)}
    assert data[5:] == ours[5:]


async def test_plain_bytes_both_ways(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    serializer = AvroSerializer[Any](registry, "bytes")
    await serializer.prepare(topic)
    ours = serializer.serialize(topic, b"abc", [])
    assert TheirAvroDeserializer(theirs, conf=PLAIN)(ours, context(topic)) == b"abc"


async def test_avro_with_a_number_in_a_header(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    """This registry gives no GUIDs, so the header has the number."""
    serializer = AvroSerializer[Any](registry, AVRO, schema_id_location="header")
    await serializer.prepare(topic)
    headers: list[tuple[str, bytes | None]] = []
    ours = serializer.serialize(topic, ORDER, headers)
    read = TheirAvroDeserializer(theirs, conf=PLAIN)(ours, context(topic, headers))
    assert isinstance(read, dict)
    assert read["id"] == 7


async def test_their_guid_in_a_header(registry: SchemaRegistry, topic: str) -> None:
    """Confluent's registry in memory gives GUIDs, as its servers do."""
    theirs = SchemaRegistryClient.new_client({"url": f"mock://{topic}"})
    conf = {**PLAIN, "schema.id.serializer": header_schema_id_serializer}
    headers: list[tuple[str, bytes]] = []
    TheirAvroSerializer(theirs, json.dumps(AVRO), conf=conf)(
        {**ORDER, "total": Decimal(0)}, context(topic, headers)
    )
    [(name, mark)] = headers
    assert name == "__value_schema_id"
    assert mark[0] == 1
    with pytest.raises(SchemaRegistryError, match="guids"):  # which this registry does not know
        await AvroDeserializer[Any](registry).deserialize(topic, b"x", headers)


async def test_avro_with_references(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    await registry.register(f"{topic}-item", Schema(json.dumps(ITEM)))
    fields = [{"name": "items", "type": {"type": "array", "items": "shop.Item"}}]
    text = json.dumps({"type": "record", "name": "Basket", "namespace": "shop", "fields": fields})
    schema = Schema(text, references=(Reference("shop.Item", f"{topic}-item", 1),))
    serializer = AvroSerializer[Any](registry, schema)
    await serializer.prepare(topic)
    basket = {"items": ORDER["items"]}
    ours = serializer.serialize(topic, basket, [])
    assert TheirAvroDeserializer(theirs, conf=PLAIN)(ours, context(topic)) == basket
    same = TheirSchema(text, "AVRO", [SchemaReference("shop.Item", f"{topic}-item", 1)])
    data = TheirAvroSerializer(theirs, same, conf=PLAIN)(basket, context(topic))
    assert data == ours
    assert await AvroDeserializer[Any](registry).deserialize(topic, data) == basket


async def test_a_union_of_event_types_by_references(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    payment = {"type": "record", "name": "shop.Paid", "fields": [{"name": "id", "type": "long"}]}
    await registry.register(f"{topic}-order", Schema(json.dumps(AVRO)))
    await registry.register(f"{topic}-paid", Schema(json.dumps(payment)))
    union = Schema(
        '["shop.Order", "shop.Paid"]',
        references=(
            Reference("shop.Order", f"{topic}-order", 1),
            Reference("shop.Paid", f"{topic}-paid", 1),
        ),
    )
    serializer = AvroSerializer[Any](registry, union)
    await serializer.prepare(topic)
    ours = serializer.serialize(topic, ("shop.Paid", {"id": 3}), [])
    assert TheirAvroDeserializer(theirs, conf=PLAIN)(ours, context(topic)) == {"id": 3}
    assert await AvroDeserializer[Any](registry).deserialize(topic, ours) == {"id": 3}


async def test_evolution(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    """A version with a new field and its default; old readers and new ones; a refusal."""
    wider = {**AVRO, "fields": [*AVRO["fields"], {"name": "country", "type": "string",
                                                   "default": "?"}]}  # fmt: skip
    await registry.set_compatibility("BACKWARD", f"{topic}-value")
    old, new = (AvroSerializer[Any](registry, schema) for schema in (AVRO, wider))
    await old.prepare(topic)
    await new.prepare(topic)
    before = old.serialize(topic, ORDER, [])
    after = new.serialize(topic, {**ORDER, "country": "DE"}, [])
    assert before[:5] != after[:5]
    as_new = AvroDeserializer[Any](registry, wider)
    countries = []
    for each in (before, after):
        order = await as_new.deserialize(topic, each)
        assert order is not None
        countries.append(order["country"])
    assert countries == ["?", "DE"]
    as_old = TheirAvroDeserializer(theirs, json.dumps(AVRO), conf=PLAIN)
    assert "country" not in as_old(after, context(topic))
    narrower = {**AVRO, "fields": [{"name": "id", "type": "string"}]}
    refused = AvroSerializer[Any](registry, narrower)
    await refused.prepare(topic)
    with pytest.raises(IncompatibleSchemaError) as caught:
        refused.serialize(topic, {"id": "7"}, [])
    assert caught.value.status == 409
    latest = AvroSerializer[Any](registry, use_latest_version=True)
    await latest.prepare(topic)
    assert latest.serialize(topic, {**ORDER, "country": "DE"}, []) == after


async def test_a_schema_that_is_not_registered_is_not_found(
    registry: SchemaRegistry, topic: str
) -> None:
    serializer = AvroSerializer[Any](registry, AVRO, auto_register_schemas=False)
    await serializer.prepare(topic)
    with pytest.raises(SchemaNotFoundError):
        serializer.serialize(topic, ORDER, [])


async def test_json_both_ways(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    value = {"id": 7, "note": "soon"}
    serializer = JsonSchemaSerializer[Any](registry, JSON)
    await serializer.prepare(topic)
    ours = serializer.serialize(topic, value, [])
    assert (
        JSONDeserializer(None, schema_registry_client=theirs, conf=PLAIN)(ours, context(topic))
        == value
    )
    data = JSONSerializer(json.dumps(JSON), theirs, conf=PLAIN)(value, context(f"{topic}-other"))
    assert data is not None
    assert await JsonSchemaDeserializer[Any](registry).deserialize(topic, data) == value
    with pytest.raises(SerializationError, match=r"Order\.id"):
        serializer.serialize(topic, {"id": "seven"}, [])


async def test_json_with_references(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str
) -> None:
    await registry.register(f"{topic}-order", Schema(json.dumps(JSON), "JSON"))
    text = json.dumps({"type": "object", "properties": {"order": {"$ref": "order.json"}}})
    schema = Schema(text, "JSON", references=(Reference("order.json", f"{topic}-order", 1),))
    serializer = JsonSchemaSerializer[Any](registry, schema)
    await serializer.prepare(topic)
    value = {"order": {"id": 1}}
    ours = serializer.serialize(topic, value, [])
    assert (
        JSONDeserializer(None, schema_registry_client=theirs, conf=PLAIN)(ours, context(topic))
        == value
    )
    assert await JsonSchemaDeserializer[Any](registry).deserialize(topic, ours) == value


@pytest.mark.parametrize("message", [an_order(), Payment(id=3), Item(sku="a")])
async def test_protobuf_both_ways(
    registry: SchemaRegistry, theirs: SchemaRegistryClient, topic: str, message: Any
) -> None:
    kind = type(message)
    serializer = ProtobufSerializer[Any](registry, kind)
    await serializer.prepare(topic)
    ours = serializer.serialize(topic, message, [])
    read = TheirProtobufDeserializer(kind, PLAIN, theirs)(ours, context(topic))
    assert read is not None
    assert read == message
    conf = {**PLAIN, "use.deprecated.format": False}
    data = TheirProtobufSerializer(kind, theirs, conf)(message, context(f"{topic}-other"))
    assert data is not None
    assert data[5:] == ours[5:]
    assert await ProtobufDeserializer[Any](registry, kind).deserialize(topic, data) == message
    made = await ProtobufDeserializer[Any](registry).deserialize(topic, data)
    assert made is not None
    assert made.SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True
    )
