"""A column's schema compared with those of a registry, by names and by types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from aioproducer.engine.columnar import avro_encoder, derived_json_schema
from aioproducer.errors import ColumnError, ConfigError
from aioproducer.spark.schema_match import check_json_schema, with_names_of


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def test_nested_fields_get_the_names_of_the_columns() -> None:
    point = record(field("X"), field("y"), name="P")
    schema = record(
        field("Id", "long"),
        field("Where", ["null", point], default=None),
        field("All", {"type": "array", "items": "P"}),
        field("More", {"type": "map", "values": ["null", "P"]}),
        field("Other", "string", default="o"),
    )
    xy = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    kind = pa.struct(
        [("id", pa.int64()), ("where", xy), ("all", pa.list_(xy)), ("more", pa.map_("string", xy))]
    )
    text = with_names_of(kind, json.dumps(schema))
    row = {"id": 1, "where": {"x": 2, "y": 3}, "all": [{"x": 4, "y": 5}], "more": [("m", None)]}
    [value] = avro_encoder(kind, text).encode(pa.array([row], kind)).to_pylist()
    assert (
        value == b"\x02" + b"\x02\x04\x06" + b"\x02\x08\x0a\x00" + b"\x02\x02m\x00\x00" + b"\x02o"
    )


def test_a_name_of_the_same_case_goes_first() -> None:
    schema = json.dumps(record(field("a"), field("A", default=0)))
    kind = pa.struct([("a", pa.int32())])
    assert with_names_of(kind, schema) == schema


def test_two_columns_of_one_field_are_left_to_the_encoder() -> None:
    schema = json.dumps(record(field("a")))
    kind = pa.struct([("a", pa.int32()), ("A", pa.int32())])
    assert with_names_of(kind, schema) == schema


def test_a_column_that_may_be_either_field_is_refused() -> None:
    kind = pa.struct([("aa", pa.int32())])
    with pytest.raises(ConfigError, match=r"'aa' matches several of the schema's fields, aA, Aa"):
        with_names_of(kind, json.dumps(record(field("aA"), field("Aa"))))


def test_a_field_that_a_default_names_keeps_its_name() -> None:
    point = record(field("x", default=0), name="P")
    schema = json.dumps(record(field("a", point), field("b", "P", default={"x": 3})))
    kind = pa.struct([("a", pa.struct([("X", pa.int32())]))])
    with pytest.raises(ConfigError, match=r"give the column 'X' exactly this name"):
        with_names_of(kind, schema)
    kind = pa.struct([("A", pa.struct([("x", pa.int32())]))])
    [value] = avro_encoder(kind, with_names_of(kind, schema)).encode(
        pa.array([{"A": {"x": 1}}], kind)
    )
    assert value.as_py() == b"\x02\x06"


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"type":"record","fields":[{},1,{"name":[],"type":1}]}', "3"]
)
def test_a_schema_that_can_not_be_read_is_left_to_the_encoder(text: str) -> None:
    assert with_names_of(pa.struct([("a", pa.int32())]), text) == text


KIND = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("price", pa.decimal128(10, 2)),
        ("items", pa.list_(pa.struct([("sku", pa.string())]))),
        ("counts", pa.map_(pa.string(), pa.int32())),
    ]
)


def check(schema: Any, kind: pa.DataType = KIND) -> None:
    check_json_schema(derived_json_schema(kind), json.dumps(schema), "value")


def test_the_derived_schema_fits_itself() -> None:
    check(derived_json_schema(KIND))


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["null", "object"], "required": ["id"]},
        {"properties": {"id": {"type": "number"}, "price": {"$ref": "#/definitions/p"}},
         "definitions": {"p": {"oneOf": [{"type": "null"}, {"type": "number"}]}}},
        {"anyOf": [{"type": "string"}, {"properties": {"id": {"type": "integer"}}}]},
        {"allOf": [{"type": "object"}, {"$ref": "https://elsewhere/x.json"}]},
        {"patternProperties": {".": {}}, "additionalProperties": False},
        {"properties": {"items": {"items": {"properties": {"sku": {"type": "string"}}}}}},
    ],
)  # fmt: skip
def test_schemas_that_fit(schema: Any) -> None:
    check(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (False, "accepts no value for the column 'value'"),
        ({"type": "array"}, "the column 'value' is of the JSON type object, the schema's array"),
        ({"properties": {"id": {"type": "string"}}}, "'value.id' is of the JSON type integer"),
        ({"required": ["no"]}, "requires the property 'no'; the column 'value' lacks it"),
        (
            {"properties": {"id": {}, "price": {}, "items": {}}, "additionalProperties": False},
            "no property for the column 'value.counts'; it has id, items, price",
        ),
        ({"additionalProperties": {"type": "integer"}}, "'value.price' is of the JSON type number"),
        (
            {"properties": {"items": {"items": {"additionalProperties": False}}}},
            "no property for the column 'value.items[].sku'; it has none",
        ),
        (
            {"properties": {"counts": {"additionalProperties": {"type": "string"}}}},
            "'value.counts.value' is of the JSON type integer",
        ),
        (
            {"anyOf": [{"type": "null"}, {"properties": {"id": {"type": "string"}}}]},
            "'value.id' is of the JSON type integer, the schema's string",
        ),
        ({"allOf": [{}, {"$ref": "#/$defs/x"}], "$defs": {"x": False}}, "accepts no value"),
    ],
)
def test_schemas_that_do_not_fit(schema: Any, words: str) -> None:
    with pytest.raises(ColumnError) as caught:
        check(schema)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, "3", '{"$ref": "#"}', '{"$ref": "#/x"}', '{"allOf": [1]}']
)
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(ConfigError, match="the JSON Schema"):
        check_json_schema(derived_json_schema(KIND), text, "value")
