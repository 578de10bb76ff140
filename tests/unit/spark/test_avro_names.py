"""Fields of a schema whose names differ from the column's in their case alone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from aioproducer.engine.columnar import avro_encoder
from aioproducer.errors import ConfigError
from aioproducer.spark.schema_match import with_names_of


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
