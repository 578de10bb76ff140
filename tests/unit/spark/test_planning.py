"""Plans with typed columns: the registry is asked once, and tasks have all they need."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from aioproducer.errors import (
    ColumnError,
    ConfigError,
    SchemaNotFoundError,
    SchemaRegistryUnavailableError,
    SerializationError,
)
from aioproducer.schema_registry import Reference, Rule, Schema, SchemaRegistry
from aioproducer.spark import schemas
from aioproducer.spark.planning import plan_sink, plan_typed_rows
from aioproducer.spark.rows import by_topic
from aioproducer.testing import InMemorySchemaRegistry

URL = {"schema.registry.url": "http://localhost:1"}
AVRO = {"kafka.bootstrap.servers": "localhost:1", "topic": "orders", "value.format": "avro", **URL}
ORDER = StructType([StructField("id", LongType(), False), StructField("note", StringType())])
COLUMNS = StructType([StructField("key", StringType()), StructField("value", ORDER)])
ROWS = pa.RecordBatch.from_pydict(
    {
        "key": ["a", "b"],
        "value": pa.array(
            [{"id": 1, "note": None}, None], pa.struct([("id", "int64"), ("note", "string")])
        ),
    }
)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> InMemorySchemaRegistry:
    """The only registry, whatever the properties are."""
    made = InMemorySchemaRegistry()
    monkeypatch.setattr(SchemaRegistry, "from_properties", classmethod(lambda cls, _: made))
    monkeypatch.setattr(schemas, "_registries", schemas.Registries())
    return made


def sent(options: Mapping[str, str], rows: pa.RecordBatch = ROWS) -> dict[str, Any]:
    """The columns of each topic, by a plan that was pickled."""
    plan = pickle.loads(pickle.dumps(plan_sink(options, COLUMNS)))
    return {topic: columns.to_pydict() for topic, columns in by_topic(rows, plan)}


async def test_a_derived_schema_is_registered_once(registry: InMemorySchemaRegistry) -> None:
    for _ in range(3):
        value = b"\0\0\0\0\x01\x02\x00"
        assert sent(AVRO) == {"orders": {"key": ["a", "b"], "value": [value, None]}}
    assert registry.requests == ["POST /subjects/orders-value/versions"]
    found = await registry.latest("orders-value")
    assert json.loads(found.schema.text) == {
        "type": "record",
        "name": "orders_value",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }


def test_the_names_of_options(registry: InMemorySchemaRegistry) -> None:
    plan = plan_sink(
        AVRO | {"value.record.name": "com.shop.Order", "key.format": "avro", "topic": "2-go"},
        COLUMNS,
    )
    derived = {name: each.schemas["2-go"] for name, each in plan.encodings.items()}
    assert json.loads(derived["value"].text)["namespace"] == "com.shop"
    assert derived["key"].text == '"string"'
    unnamed = plan_sink(AVRO | {"topic": "2-go"}, COLUMNS).encodings["value"].schemas["2-go"]
    assert json.loads(unnamed.text)["name"] == "_2_go_value"


async def test_the_latest_schema(registry: InMemorySchemaRegistry) -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "Note", "type": ["string", "null"]},
                {"name": "at", "type": "int", "default": 7},
                {"name": "ID", "type": "long"},
            ],
        }
    )
    await registry.register("orders-value", Schema(text))
    latest = AVRO | {"use.latest.version": "true"}
    for _ in range(2):
        assert sent(latest)["orders"]["value"] == [b"\0\0\0\0\x01\x02\x0e\x02", None]
    assert len(registry.requests) == 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema('{"type": "object"}', "JSON"), "has the type JSON, which value.format=avro can't"),
        (Schema('"string"'), "the latest schema of 'orders-value', version 1 (id 1): the column"),
        (Schema("{"), "the Avro schema is not JSON"),
        (
            Schema('"string"', rules=(Rule("hide", "TRANSFORM", "WRITE", "ENCRYPT"),)),
            "has rules, which are not supported: 'hide'",
        ),
    ],
)
async def test_a_latest_schema_that_does_not_do(
    registry: InMemorySchemaRegistry, schema: Schema, words: str
) -> None:
    await registry.register("orders-value", schema)
    with pytest.raises(ConfigError) as caught:
        plan_sink(AVRO | {"use.latest.version": "true"}, COLUMNS)
    assert words in str(caught.value)


def test_json_without_a_registry() -> None:
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "value.format": "json"}
    assert sent(options) == {"t": {"key": ["a", "b"], "value": [b'{"id":1}', None]}}
    columns = StructType([*COLUMNS.fields, StructField("topic", StringType())])
    plan = plan_typed_rows({"value.format": "json"}, columns)
    rows = ROWS.append_column("topic", pa.array(["a", "b"]))
    assert [topic for topic, _ in by_topic(rows, plan)] == ["a", "b"]
    with pytest.raises(ConfigError, match=r"the column is a string; remove the option"):
        plan_typed_rows({"key.format": "json", "value.format": "json"}, COLUMNS, "t")


async def test_json_with_a_registry(registry: InMemorySchemaRegistry) -> None:
    options = AVRO | {"value.format": "json", "value.record.name": "com.shop.Order"}
    assert sent(options)["orders"]["value"] == [b'\0\0\0\0\x01{"id":1}', None]
    schema = json.loads((await registry.latest("orders-value")).schema.text)
    assert (schema["title"], schema["required"]) == ("Order", ["id"])
    other = Schema('{"properties": {"id": {}}, "additionalProperties": false}', "JSON")
    await registry.register("returns-value", other)
    with pytest.raises(ColumnError, match=r"no property for the column 'value\.note'; it has id"):
        sent(options | {"topic": "returns", "use.latest.version": "true"})


PROTO = """
syntax = "proto3";
package com.shop;
import "shop/note.proto";
message Other { message Inner { string x = 1; } }
message Order {
    message Line { int64 id = 7; }
    optional string note = 2;
    int64 id = 1;
    Note more = 3;
}
"""
NOTE = """
syntax = "proto3";
package com.shop;
message Note { string text = 1; }
"""


async def test_protobuf(registry: InMemorySchemaRegistry) -> None:
    options = AVRO | {"value.format": "protobuf"}
    order = b"\0\0\0\0\x01\x00\x08\x01"
    assert sent(options)["orders"]["value"] == [order, None]
    assert (await registry.latest("orders-value")).schema.schema_type == "PROTOBUF"
    assert sent(options | {"use.latest.version": "true"})["orders"]["value"] == [order, None]
    with pytest.raises(ColumnError, match="the column 'key' is of type string; a message needs"):
        plan_sink(options | {"key.format": "protobuf"}, COLUMNS)


async def test_the_latest_message_of_a_proto_file(registry: InMemorySchemaRegistry) -> None:
    await registry.register("note", Schema(NOTE, "PROTOBUF"))
    reference = Reference("shop/note.proto", "note", 1)
    await registry.register("orders-value", Schema(PROTO, "PROTOBUF", (reference,)))
    options = AVRO | {"value.format": "protobuf", "use.latest.version": "true"}
    with pytest.raises(
        ColumnError, match=r"com\.shop\.Other has no field for the column 'value\.id'"
    ):
        plan_sink(options, COLUMNS)
    options |= {"value.record.name": "com.shop.Order"}
    assert sent(options)["orders"]["value"] == [b"\0\0\0\0\x02\x02\x02\x08\x01", None]
    with pytest.raises(ConfigError, match=r"it contains no message 'com\.shop\.None'"):
        plan_sink(options | {"value.record.name": "com.shop.None"}, COLUMNS)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("message", "a.proto", "protoc refuses the Protobuf schema: "),
        ('syntax = "proto3"; message M {}', "../a.proto", "'../a.proto', which is not the path"),
        ('syntax = "proto3"; message M {}', "--plugin=x.proto", "which is not the path"),
        ('syntax = "proto3";', "a.proto", "it contains no message at the indexes"),
        (
            'syntax = "proto3"; message M {} // \ud800',
            "a.proto",
            "can't be compiled: 'utf-8' codec",
        ),
        ('syntax = "proto3"; message M {}', f"{'a' * 300}.proto", "can't be compiled: "),
        ('syntax = "proto3"; message M {}', "schema.proto", "M has no field for the column"),
    ],
)
async def test_proto_files_that_do_not_do(
    registry: InMemorySchemaRegistry, text: str, path: str, words: str
) -> None:
    await registry.register("note", Schema(NOTE, "PROTOBUF"))
    schema = Schema(text, "PROTOBUF", (Reference(path, "note", 1),))
    await registry.register("orders-value", schema)
    with pytest.raises(ConfigError) as caught:
        plan_sink(AVRO | {"value.format": "protobuf", "use.latest.version": "true"}, COLUMNS)
    assert words in str(caught.value)


async def test_a_map_is_no_message_of_a_proto_file(registry: InMemorySchemaRegistry) -> None:
    """Java's deserializer counts the messages that the text has."""
    text = """
        syntax = "proto3";
        message All {
            map<string, int32> counts = 1;
            message Order { int64 id = 1; string note = 2; }
        }
    """
    await registry.register("orders-value", Schema(text, "PROTOBUF"))
    options = AVRO | {"value.format": "protobuf", "use.latest.version": "true"}
    values = sent(options | {"value.record.name": "All.Order"})["orders"]["value"]
    assert values == [b"\0\0\0\0\x01\x04\x00\x00\x08\x01", None]


def test_a_schema_that_must_be_there_already(registry: InMemorySchemaRegistry) -> None:
    with pytest.raises(SchemaNotFoundError):
        plan_sink(AVRO | {"auto.register.schemas": "false"}, COLUMNS)
    plan_sink(AVRO, COLUMNS)
    plan_sink(AVRO | {"auto.register.schemas": "false"}, COLUMNS)


def test_nothing_is_registered_that_can_not_be_written(registry: InMemorySchemaRegistry) -> None:
    columns = StructType([StructField("value", StructType([StructField("a b", LongType())]))])
    with pytest.raises(ColumnError, match=r"'value\.a b'"):
        plan_sink(AVRO, columns)
    assert not registry.requests


def test_a_registry_that_is_down_is_asked_again(registry: InMemorySchemaRegistry) -> None:
    registry.fail_with(SchemaRegistryUnavailableError("it is down"))
    with pytest.raises(SchemaRegistryUnavailableError, match="it is down"):
        plan_sink(AVRO, COLUMNS)
    registry.fail_with(None)
    plan_sink(AVRO, COLUMNS)


def test_a_registry_that_does_not_answer(
    registry: InMemorySchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "_SECONDS", 0.01)
    registry.delay(60)
    with pytest.raises(SchemaRegistryUnavailableError, match="has not answered within"):
        plan_sink(AVRO, COLUMNS)


async def test_a_plan_is_made_where_an_event_loop_runs(registry: InMemorySchemaRegistry) -> None:
    assert plan_sink(AVRO, COLUMNS).encodings


def test_topics_of_rows(registry: InMemorySchemaRegistry) -> None:
    columns = StructType([*COLUMNS.fields, StructField("topic", StringType())])
    without = {name: value for name, value in AVRO.items() if name != "topic"}
    with pytest.raises(ConfigError, match=r"list all of them in the option 'topics'"):
        plan_sink(without, columns)
    with pytest.raises(ConfigError, match="'topic' and 'topics' are both given"):
        plan_sink(AVRO | {"topics": "a"}, columns)
    plan = plan_sink(without | {"topics": "a, b"}, columns)
    rows = ROWS.append_column("topic", pa.array(["b", "b"]))
    [(topic, _)] = by_topic(rows, plan)
    assert topic == "b"
    names = [json.loads(each.text)["name"] for each in plan.encodings["value"].schemas.values()]
    assert names == ["a_value", "b_value"]
    rows = ROWS.append_column("topic", pa.array(["c", "b"]))
    with pytest.raises(
        SerializationError, match="the topic 'c', which is not in the option 'topics'"
    ):
        list(by_topic(rows, plan))


def test_a_value_that_does_not_fit_is_named_with_its_topic(
    registry: InMemorySchemaRegistry,
) -> None:
    rows = ROWS.set_column(1, "value", pa.array([{"id": 1}, {"id": None}], ROWS.column(1).type))
    with pytest.raises(
        SerializationError, match=r"^a row for topic 'orders': row 1: 'value\.id'.* is null"
    ):
        sent(AVRO, rows)


def test_secrets_that_spark_would_show() -> None:
    with pytest.raises(
        ConfigError, match=r"^basic\.auth\.user\.info contains a secret, which Spark"
    ):
        plan_sink(AVRO | {"basic.auth.user.info": "alice:hunter2"}, COLUMNS)


def test_a_driver_keeps_its_secrets(registry: InMemorySchemaRegistry) -> None:
    options = {"value.format": "avro", "basic.auth.user.info": "alice:hunter2", **URL}
    plan = plan_typed_rows(options, COLUMNS, "orders")
    assert b"hunter2" not in pickle.dumps(plan)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ArrayType(NullType(), False), b"\0\0\0\0\x01\x00"),
        (MapType(StringType(), NullType(), False), b"\0\0\0\0\x01\x00"),
    ],
)
def test_empty_arrays_and_maps_of_no_type(
    registry: InMemorySchemaRegistry, kind: DataType, value: bytes
) -> None:
    plan = plan_sink(AVRO, StructType([StructField("value", kind)]))
    arrow = pa.list_(pa.null()) if isinstance(kind, ArrayType) else pa.map_("string", pa.null())
    rows = pa.RecordBatch.from_pydict({"value": pa.array([[]], arrow)})
    [(_, sent)] = by_topic(rows, plan)
    assert sent.to_pydict() == {"value": [value]}


def test_a_map_whose_keys_have_no_type(registry: InMemorySchemaRegistry) -> None:
    kind = StructType([StructField("a", MapType(NullType(), NullType(), False))])
    with pytest.raises(ConfigError, match=r"^value\.a is of type map<void,void>"):
        plan_sink(AVRO, StructType([StructField("value", kind)]))


def test_two_columns_of_one_name() -> None:
    with pytest.raises(ConfigError, match="there are 2 columns with the name 'value'"):
        plan_sink(AVRO, StructType([*COLUMNS.fields, COLUMNS["value"]]))


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"no column 'key' for the option 'key\.format'"):
        plan_sink(AVRO | {"key.format": "avro"}, StructType(COLUMNS.fields[1:]))


def test_a_struct_without_a_format() -> None:
    with pytest.raises(ConfigError, match=r"or the option value\.format=avro, json or protobuf"):
        plan_sink({"kafka.bootstrap.servers": "localhost:1", "topic": "t"}, COLUMNS)
