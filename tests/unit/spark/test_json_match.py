"""A column's schema compared with a JSON Schema of the registry."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from aioproducer.engine.columnar import derived_json_schema
from aioproducer.errors import ColumnError, ConfigError
from aioproducer.spark.schema_match import check_json_schema

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
