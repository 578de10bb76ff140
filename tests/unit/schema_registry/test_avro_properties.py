"""Random Avro schemas and values, beside fastavro and confluent-kafka's deserializer."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any, Final

import fastavro
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from aioproducer.errors import SerializationError
from aioproducer.schema_registry import AvroDeserializer, AvroSerializer, Schema
from aioproducer.schema_registry.avro_misfits import AvroDiagnosis
from aioproducer.schema_registry.avro_schema import parsed_schema
from aioproducer.schema_registry.wire_format import id_bytes
from aioproducer.testing import InMemorySchemaRegistry

Pair = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and the strategy of its values."""

PRIMITIVES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
}


@st.composite
def nested(draw: st.DrawFn, depth: int) -> Pair:
    """A random schema and its values; named types have no names yet."""
    kinds = ["primitive"] * 3 + ["record", "array", "map", "union", "enum", "fixed"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    name = ""
    if kind == "record":
        pairs = draw(st.lists(nested(depth - 1), max_size=4))
        fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(pairs)]
        values = {f"f{i}": strategy for i, (_, strategy) in enumerate(pairs)}
        return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(values)
    if kind in ("array", "map"):
        schema, items = draw(nested(depth - 1))
        if kind == "array":
            return {"type": "array", "items": schema}, st.lists(items, max_size=3)
        keys = st.text(max_size=3)
        return {"type": "map", "values": schema}, st.dictionaries(keys, items, max_size=3)
    if kind == "union":
        primitive = draw(st.sampled_from(sorted(set(PRIMITIVES) - {"null"})))
        return ["null", primitive], st.none() | PRIMITIVES[primitive]
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(0, 4))
        return {"type": "fixed", "name": name, "size": size}, st.binary(
            min_size=size, max_size=size
        )
    primitive = draw(st.sampled_from(sorted(PRIMITIVES)))
    return primitive, PRIMITIVES[primitive]


def name_types(schema: Any, numbers: Iterator[int]) -> None:
    """Give each named type a name of its own."""
    if isinstance(schema, dict):
        if "name" in schema:
            schema["name"] = f"N{next(numbers)}"
        for each in (schema.get("items"), schema.get("values")):
            name_types(each, numbers)
        for field in schema.get("fields", ()):
            name_types(field["type"], numbers)


@st.composite
def schemas(draw: st.DrawFn) -> Pair:
    """A random schema and its values."""
    schema, values = draw(nested(3))
    name_types(schema, itertools.count())
    return schema, values


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    schema, values = draw(schemas())
    return schema, draw(values)


def bare(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def text_of(schema: Any) -> str:
    return json.dumps(schema if not isinstance(schema, str) else {"type": schema})


async def both_ways(schema: Any, value: Any) -> tuple[bytes, Any]:
    registry = InMemorySchemaRegistry()
    serializer = AvroSerializer[Any](registry, text_of(schema))
    await serializer.prepare("orders")
    data = serializer.serialize("orders", value, [])
    return data, await AvroDeserializer[Any](registry).deserialize("orders", data)


@settings(deadline=None, max_examples=150)
@given(typed_values())
def test_what_fits_is_written_as_fastavro_writes_it(typed: tuple[Any, Any]) -> None:
    schema, value = typed
    data, read = asyncio.run(both_ways(schema, value))
    expected = value if schema == "bytes" else bare(schema, value)
    assert data == id_bytes(1) + expected
    assert read == value
    parsed = parsed_schema(Schema(text_of(schema)), {})
    assert AvroDiagnosis(parsed.parsed, parsed.named).misfit(value) is None


@settings(deadline=None, max_examples=100)
@given(typed_values())
def test_confluents_deserializer_reads_what_is_written(typed: tuple[Any, Any]) -> None:
    schema, value = typed
    data, _ = asyncio.run(both_ways(schema, value))
    theirs = SchemaRegistryClient.new_client({"url": f"mock://{id(typed)}"})
    number = theirs.register_schema("orders-value", TheirSchema(text_of(schema), "AVRO"))
    read = TheirAvroDeserializer(theirs, conf={"subject.name.strategy.type": "TOPIC"})
    if len(data) > 5:  # theirs refuses a value of no bytes
        context = SerializationContext("orders", MessageField.VALUE)
        assert read(id_bytes(number) + data[5:], context) == value


async def read_any(schema: Any, payload: bytes, reader: Any) -> Any:
    registry = InMemorySchemaRegistry()
    made = await registry.register("orders-value", Schema(text_of(schema)))
    deserializer = AvroDeserializer[Any](registry, reader and text_of(reader))
    return await deserializer.deserialize("orders", id_bytes(made.id) + payload)


@settings(deadline=None, max_examples=150)
@given(schemas(), st.binary(max_size=64), st.booleans())
def test_any_bytes_are_read_or_refused(pair: Pair, payload: bytes, skips: bool) -> None:
    schema, _ = pair
    writer, reader = schema, None
    if skips:
        writer = {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
        reader = {"type": "record", "name": "R", "fields": []}
    try:
        asyncio.run(read_any(writer, payload, reader))
    except SerializationError as error:
        assert "topic 'orders'" in str(error)  # noqa: PT017


WRONG: Final = st.sampled_from([None, True, 2**70, 1.5, math.nan, "x", b"x", [], {}, object()])


@settings(deadline=None, max_examples=150)
@given(schemas(), WRONG)
def test_any_value_is_written_or_refused(pair: Pair, value: Any) -> None:
    schema, _ = pair
    try:
        data, read = asyncio.run(both_ways(schema, value))
    except SerializationError as error:
        assert "topic 'orders', subject 'orders-value'" in str(error)  # noqa: PT017
        return
    assert data[:5] == id_bytes(1)
    assert type(read) is not object
