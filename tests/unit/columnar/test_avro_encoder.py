"""Columns matched with schemas, the values that do not fit, and arrays of every form."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from aioproducer.engine.columnar import avro_encoder, derived_avro_schema
from aioproducer.errors import ColumnError, ConfigError, SerializationError
from tests.support.arrow_values import FORMS, encoded


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def read(made: pa.Array, schema: Any, named: dict[str, Any] | None = None) -> list[Any]:
    parsed = fastavro.parse_schema(schema, named or {})
    return [
        None if each is None else fastavro.schemaless_reader(io.BytesIO(each), parsed, None)
        for each in made.to_pylist()
    ]


def one(form: str, kind: pa.DataType, schema: Any, *values: Any) -> list[Any]:
    """The values of a column ``a``, written with a schema and read back."""
    array = pa.array([{"a": each} for each in values], pa.struct([("a", kind)]))
    whole = record(a=schema)
    made = encoded(form, avro_encoder(array.type, whole), array)
    return [each["a"] for each in read(made, whole)]


def long(logical: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


NOON = datetime(2013, 7, 1, 12, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "schema", "values"),
    [
        (pa.int32(), "long", [-(2**31), 2**31 - 1]),
        (pa.uint32(), "long", [2**32 - 1]),
        (pa.int8(), ["null", "int"], [-128, None]),
        (pa.int8(), ["int", "null"], [None, 127]),
        (pa.int64(), ["string", "null", "int", "double", "long"], [2**40, None]),
        (pa.int32(), ["null", "long", "int"], [1]),
        (pa.string(), ["null", "bytes", "string"], ["ü", None]),
        (pa.float32(), "double", [0.5]),
        (pa.float16(), "float", [0.5]),
        (pa.bool_(), "boolean", [True, False]),
        (pa.null(), ["int", "null"], [None, None]),
        (pa.null(), "null", [None]),
        (pa.date32(), {"type": "int", "logicalType": "date"}, [date(1969, 12, 31)]),
        (pa.date64(), {"type": "int", "logicalType": "date"}, [date(1969, 12, 31)]),
        (pa.time32("s"), long("time-micros"), [time(23, 59, 59)]),
        (pa.time64("us"), {"type": "int", "logicalType": "time-millis"}, [time(1, 2, 3, 4000)]),
        (pa.timestamp("us", "Europe/Berlin"), long("timestamp-millis"), [NOON]),
        (pa.timestamp("s", "UTC"), long("timestamp-micros"), [NOON]),
        (pa.timestamp("ms"), long("local-timestamp-micros"), [NOON.replace(tzinfo=None)]),
        (
            pa.decimal128(5, 2),
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4},
            [Decimal("-1.28"), Decimal("999.99"), Decimal("0.00"), None][:3],
        ),
        (
            pa.decimal128(38, 0),
            {
                "type": "fixed",
                "name": "f",
                "size": 20,
                "logicalType": "decimal",
                "precision": 40,
                "scale": 1,
            },
            [Decimal(-(10**38) + 1), Decimal(0)],
        ),
        (pa.binary(), {"type": "fixed", "name": "f", "size": 2}, [b"ab"]),
        (pa.binary(2), {"type": "fixed", "name": "f", "size": 2}, [b"ab"]),
        (pa.binary(2), "bytes", [b"ab"]),
        (pa.string_view(), "string", ["a text of more than twelve bytes"]),
        (pa.binary_view(), "bytes", [b"ab"]),
        (pa.dictionary(pa.int8(), pa.string()), "string", ["x", "y", "x"]),
        (
            pa.dictionary(pa.int8(), pa.string()),
            ["null", {"type": "enum", "name": "e", "symbols": ["x", "y"]}],
            ["y", None, "x"],
        ),
        (
            pa.map_(pa.string(), pa.list_(pa.int16())),
            {"type": "map", "values": ["null", {"type": "array", "items": ["null", "long"]}]},
            [{}, {"k": None, "l": [None, 1]}],
        ),
    ],
    ids=str,
)
def test_a_column_gets_the_form_of_the_schema(
    form: str, kind: pa.DataType, schema: Any, values: list[Any]
) -> None:
    arrow = [list(each.items()) if isinstance(each, dict) else each for each in values]
    assert one(form, kind, schema, *arrow) == values


def test_the_branch_of_the_very_type_is_taken(form: str) -> None:
    array = pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))
    made = encoded(form, avro_encoder(array.type, record(a=["null", "long", "int"])), array)
    assert made.to_pylist() == [b"\4\2"]


@pytest.mark.parametrize("schema", [["null", {"type": "string", "logicalType": "uuid"}]])
def test_a_uuid_is_text(form: str, schema: Any) -> None:
    uuid = UUID("12345678-9abc-def0-8000-00000000000f")
    storage = pa.array([uuid.bytes, None], pa.binary(16))
    array = pa.StructArray.from_arrays([pa.ExtensionArray.from_storage(pa.uuid(), storage)], ["a"])
    assert derived_avro_schema(array.type, "Row")["fields"][0]["type"] == schema
    made = encoded(form, avro_encoder(array.type, record(a=schema)), array)
    assert read(made, record(a=schema)) == [{"a": uuid}, {"a": None}]


def test_a_field_that_the_column_lacks_gets_its_default(form: str) -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "x", "type": "int", "default": 3}, {"name": "y", "type": "string"}],
    }
    defaults: list[tuple[Any, Any]] = [
        (["null", "string"], None),
        ("string", "ü"),
        ("bytes", "\u00ff"),
        ("double", 1),
        ("boolean", True),
        ({"type": "array", "items": "long"}, [1, 2]),
        ({"type": "map", "values": "int"}, {"k": -1}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u0000"),
        (inner, {"y": "z"}),
    ]
    schema = record(a="int")
    for number, (kind, default) in enumerate(defaults):
        schema["fields"].insert(0, {"name": f"d{number}", "type": kind, "default": default})
    array = pa.array([{"a": 5}], pa.struct([("a", pa.int8())]))
    (value,) = read(encoded(form, avro_encoder(array.type, json.dumps(schema)), array), schema)
    assert value == {
        "a": 5,
        **dict(
            zip(
                (f"d{number}" for number in range(7)),
                [None, "ü", b"\xff", 1.0, True, [1, 2], {"k": -1}],
                strict=True,
            )
        ),
        "d7": "B",
        "d8": b"\0",
        "d9": {"x": 3, "y": "z"},
    }


UNION_RECORD = {
    "type": "record",
    "name": "InUnion",
    "fields": [
        {"name": "x", "type": "int"},
        {"name": "y", "type": ["null", "long"], "default": 2**40},
    ],
}
NO_NEED = {
    "type": "record",
    "name": "NoNeed",
    "fields": [{"name": "x", "type": "int", "default": 3}],
}
LATER_BRANCHES: list[tuple[Any, Any, bytes]] = [
    (["null", "string"], "a", b"\2\2a"),
    (["string", "null"], None, b"\2"),
    (["null", "int", "string"], "", b"\4\0"),
    (["int", "long"], 2**31 - 1, b"\0\xfe\xff\xff\xff\x0f"),
    (["int", "long"], 2**31, b"\2\x80\x80\x80\x80\x10"),
    (["int", "boolean"], True, b"\2\1"),
    (["int", "double"], 1.0, b"\2\0\0\0\0\0\0\xf0?"),
    (["float", "double"], 1e300, b"\2\x9cu\x00\x88<\xe47~"),
    (["null", "bytes"], "\u00ff", b"\2\2\xff"),
    (["bytes", "string"], "\u20ac", b"\2\6\xe2\x82\xac"),
    ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], "B", b"\2\2B"),
    ([{"type": "fixed", "name": "F", "size": 1}, "string"], "ab", b"\2\4ab"),
    (["null", {"type": "array", "items": "int"}], [1], b"\2\2\2\0"),
    ([UNION_RECORD, {"type": "map", "values": "int"}], {"z": 1}, b"\2\2\2z\2\0"),
    ([NO_NEED, "string"], "a", b"\2\2a"),
    ([NO_NEED, {"type": "array", "items": "string"}], ["a"], b"\2\2\2a\0"),
    ([NO_NEED, "null"], {}, b"\0\6"),
    (["null", UNION_RECORD], {"x": 1}, b"\2\2\2" + b"\x80\x80\x80\x80\x80\x40"),
]


@pytest.mark.parametrize(("union", "default", "expected"), LATER_BRANCHES)
def test_a_union_s_default_is_of_the_first_branch_that_takes_it(
    form: str, union: Any, default: Any, expected: bytes
) -> None:
    schema = record(a="int")
    schema["fields"].insert(0, {"name": "d", "type": union, "default": default})
    array = pa.array([{"a": 5}], pa.struct([("a", pa.int8())]))
    made = encoded(form, avro_encoder(array.type, json.dumps(schema)), array)
    assert made.to_pylist() == [expected + b"\n"]


def test_a_union_s_default_that_no_branch_takes() -> None:
    array = pa.array([{"a": 5}], pa.struct([("a", pa.int8())]))
    schema = record(a="int")
    schema["fields"].append({"name": "d", "type": ["null", "int"], "default": "x"})
    with pytest.raises(ConfigError, match=r"the default 'x' is not of type \[null, int\]"):
        avro_encoder(array.type, schema)


def test_a_default_of_many_unions_is_found_soon() -> None:
    """Each level has two records whose defaults fail at the bottom, so there are 2**40 ways."""
    union: Any = ["null", "int"]
    default: Any = "x"
    for level in range(40):
        names = [f"R{level}", f"S{level}"]
        kinds = union if level == 0 else [f"R{level - 1}", f"S{level - 1}"]
        union = [
            {"type": "record", "name": name, "fields": [{"name": "f", "type": kind}]}
            for name, kind in zip(names, (union, kinds), strict=True)
        ]
        for each in union:
            each["fields"][0]["default"] = default
        default = {}
    array = pa.array([{"a": 5}], pa.struct([("a", pa.int8())]))
    schema = record(a="int")
    schema["fields"].append({"name": "d", "type": union, "default": default})
    with pytest.raises(ConfigError, match=r"the default \{\} is no"):
        avro_encoder(array.type, schema)


def test_types_may_be_named_elsewhere_and_contain_themselves(form: str) -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "namespace": "org.example",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "left", "type": ["null", "Tree"], "default": None},
        ],
    }
    kind = pa.struct([("name", pa.string())])
    for _ in range(2):
        kind = pa.struct([("name", pa.string()), ("left", kind)])
    value = {"name": "a", "left": {"name": "b", "left": {"name": "c"}}}
    array = pa.array([{"t": value}], pa.struct([("t", kind)]))
    schema = record(t="org.example.Tree")
    made = encoded(form, avro_encoder(array.type, schema, named={"org.example.Tree": tree}), array)
    whole = record(t=tree)
    value["left"]["left"]["left"] = None  # type: ignore[index]
    assert read(made, whole) == [{"t": value}]


@pytest.mark.parametrize(
    ("kind", "schema", "said"),
    [
        (pa.int64(), "int", "the column 'value.a' is of type int64, the schema's int"),
        (pa.float64(), "float", "the column 'value.a' is of type double, the schema's float"),
        (pa.int32(), "double", "of type int32, the schema's double"),
        (pa.uint64(), "long", "of type uint64, the schema's long"),
        (pa.binary(), "string", "of type binary, the schema's string"),
        (pa.string(), ["null", "int"], "of type string, the schema's int"),
        (pa.string(), ["null", "int", "long"], "the schema's [null, int, long]"),
        (pa.int64(), long("timestamp-micros"), "the schema's long (timestamp-micros)"),
        (pa.timestamp("us"), long("timestamp-micros"), "without a time zone"),
        (pa.timestamp("us", "UTC"), long("local-timestamp-micros"), "with a time zone"),
        (pa.timestamp("us", "UTC"), "long", "of type timestamp[us, tz=UTC], the schema's long"),
        (pa.duration("us"), "long", "no Avro type represents its values"),
        (pa.null(), "int", "the schema allows no null"),
        (pa.int64(), [], "of type int64, the schema's []"),
        (
            pa.decimal128(5, 3),
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "digits would be lost",
        ),
        (pa.binary(3), {"type": "fixed", "name": "f", "size": 2}, "the schema's fixed f"),
        (
            pa.list_(pa.struct([("x", pa.int64())])),
            {
                "type": "array",
                "items": {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]},
            },
            "the column 'value.a[].x' is of type int64, the schema's int",
        ),
        (pa.map_(pa.int8(), pa.int8()), {"type": "map", "values": "int"}, "keys of Avro's maps"),
    ],
    ids=str,
)
def test_a_column_that_does_not_fit_is_named(kind: pa.DataType, schema: Any, said: str) -> None:
    with pytest.raises(ColumnError) as raised:
        avro_encoder(pa.struct([("a", kind)]), record(a=schema))
    assert said in str(raised.value)


def test_fields_that_are_not_on_both_sides_are_named() -> None:
    kind = pa.struct([("a", pa.int8()), ("b", pa.int8())])
    with pytest.raises(ColumnError, match=r"has no field for the column 'value.b'; it has a$"):
        avro_encoder(kind, record(a="int"))
    with pytest.raises(ColumnError, match=r"needs the field 'c' \(int\), which has no default"):
        avro_encoder(kind, record(a="int", b="int", c="int"))
    twice = pa.struct([("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(ColumnError, match="more than one field 'a'"):
        avro_encoder(twice, record(a="int"))


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "Unknown",
        {},
        {"type": "record", "name": "r"},
        {"type": "record", "fields": []},
        {"type": "record", "name": "r", "fields": [{"type": "int"}]},
        {"type": "enum", "name": "e", "symbols": "x"},
        {"type": "fixed", "name": "f", "size": -1},
        {"type": "array"},
        {"type": "record", "name": "r", "fields": [{"name": "q", "type": "int", "default": "x"}]},
        {"type": {"type": "map", "values": 3}},
        "[" * 5000 + "]" * 5000,
        [[[[1]]]],
        None,
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_schema_that_is_not_avro_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError):
        avro_encoder(pa.struct([]), schema)


def micros(value: int) -> pa.Array:
    return pa.array([0, value], pa.timestamp("us", "UTC"))


FIXED = {"type": "fixed", "name": "f", "size": 2}


@pytest.mark.parametrize(
    ("values", "schema", "said"),
    [
        (pa.array([1, None]), "long", "row 1: 'value.a' (of type int64) is null"),
        (micros(1), long("timestamp-millis"), "is finer than the unit of the schema"),
        (micros(-1), long("timestamp-millis"), "is finer than the unit of the schema"),
        (
            pa.array([0, 2**62], pa.timestamp("s", "UTC")),
            long("timestamp-micros"),
            "is out of the range",
        ),
        (
            pa.array([0, -(2**62)], pa.timestamp("s", "UTC")),
            long("timestamp-micros"),
            "out of the range",
        ),
        (pa.array([b"ab", b"abc"]), FIXED, "does not have the size"),
        (
            pa.array(["x", "z"]),
            {"type": "enum", "name": "e", "symbols": ["x", "y", ""]},
            "is not one of the schema's symbols",
        ),
        (pa.array([b"ok", b"\xff"]).view(pa.string()), "string", "is not UTF-8"),
        (pa.array([b"ok", b"12345678\xed\xa0\x80"]).view(pa.string()), "string", "is not UTF-8"),
        (
            pa.array([Decimal("1.00"), Decimal("10.00")]),
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2},
            "row 1: 'value.a' (of type decimal128(3, 2)) has more digits than the schema allows",
        ),
        (
            pa.array([Decimal("1.00"), Decimal("400.00")]),
            {**FIXED, "logicalType": "decimal", "precision": 5, "scale": 2},
            "has more digits",
        ),
        (
            pa.array([[], [1, None]]),
            {"type": "array", "items": "long"},
            "row 1: 'value.a[]' (of type int64) is null",
        ),
        (
            pa.array([{"x": 1}, None]),
            {"type": "record", "name": "q", "fields": [{"name": "x", "type": "long"}]},
            "row 1: 'value.a' is null",
        ),
    ],
    ids=lambda each: str(each)[:50] if isinstance(each, str) else "",
)
def test_a_value_that_does_not_fit_is_said_by_row(
    form: str, values: pa.Array, schema: Any, said: str
) -> None:
    array = pa.StructArray.from_arrays([values], ["a"])
    encoder = avro_encoder(array.type, record(a=schema))
    with pytest.raises(SerializationError) as raised:
        encoded(form, encoder, array)
    assert said in str(raised.value)
    assert str(raised.value).startswith("row 1: 'value.a")
    assert encoded(form, encoder, array.slice(0, 1)).null_count == 0


def test_a_row_that_is_null_stays_null(form: str) -> None:
    array = pa.array([None, {"a": 1}, None, {"a": 2}] * 5, pa.struct([("a", pa.int64())]))[3:]
    made = encoded(form, avro_encoder(array.type, record(a="long"), b"p"), array)
    expected = [None, b"p\2", None, b"p\4"] * 5
    assert made.to_pylist() == expected[3:]
    assert made.type == pa.binary()
    bare = encoded(form, avro_encoder(pa.int64(), ["null", "long"], b"p"), pa.array([None, 1]))
    assert bare.to_pylist() == [None, b"p\2\2"]


def test_a_member_below_a_null_struct_is_not_looked_at(form: str) -> None:
    decimals = pa.array([Decimal("9.99"), Decimal("99.99")])
    inner = pa.StructArray.from_arrays([decimals], ["d"], mask=pa.array([False, True]))
    array = pa.StructArray.from_arrays([inner], ["a"])
    narrow = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}
    schema = record(a=["null", {**record(d=narrow), "name": "Inner"}])
    made = encoded(form, avro_encoder(array.type, schema), array)
    assert read(made, schema) == [{"a": {"d": Decimal("9.99")}}, {"a": None}]


def test_chunks_are_encoded_one_by_one() -> None:
    column = pa.chunked_array([[{"a": 1}], [], [{"a": 2}, None]], pa.struct([("a", pa.int64())]))
    encoder = avro_encoder(column.type, record(a="long"))
    made = pickle.loads(pickle.dumps(encoder)).encode(column)
    assert isinstance(made, pa.ChunkedArray)
    assert made.to_pylist() == [b"\2", b"\4", None]
    assert encoder.encode(pa.chunked_array([], column.type)).to_pylist() == []


def test_the_same_values_in_another_type_are_taken(form: str) -> None:
    planned = pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32()))])
    encoder = avro_encoder(planned, record(a="string", b={"type": "array", "items": "int"}))
    given = pa.struct([("b", pa.large_list(pa.int32())), ("a", pa.large_string())])
    assert encoded(form, encoder, pa.array([{"a": "x", "b": [1]}], given)).to_pylist() == [
        b"\2x\2\2\0"
    ]
    for wrong in (
        pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int32()))]),
        pa.struct([("a", pa.string()), ("b", pa.int32())]),
        pa.struct([("a", pa.string())]),
        pa.int8(),
    ):
        with pytest.raises(SerializationError, match="the encoder was made for another"):
            encoded(form, encoder, pa.nulls(1, wrong))


def test_an_array_that_is_not_valid_is_refused() -> None:
    """As pyarrow makes them from a file that lies: a check comes before each read."""
    offsets = pa.array([0, 5, 1], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    array = pa.StructArray.from_arrays([texts], ["a"])
    array.validate()
    with pytest.raises(
        SerializationError, match=r"row 0: 'value.a' .* is malformed|not a valid array"
    ):
        avro_encoder(array.type, record(a="string")).encode(array)


def test_the_derived_schema() -> None:
    kind = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("nano", pa.timestamp("ns")),
            pa.field("item", pa.struct([pa.field("price", pa.decimal128(10, 2), nullable=False)])),
        ]
    )
    schema = derived_avro_schema(kind, "Order", "org.example")
    assert schema == {
        "type": "record",
        "name": "Order",
        "namespace": "org.example",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "tags",
                "type": ["null", {"type": "array", "items": "string"}],
                "default": None,
            },
            {"name": "at", "type": ["null", long("timestamp-micros")], "default": None},
            {"name": "nano", "type": ["null", long("local-timestamp-nanos")], "default": None},
            {
                "name": "item",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "item",
                        "namespace": "org.example.Order",
                        "fields": [
                            {
                                "name": "price",
                                "type": {
                                    "type": "bytes",
                                    "logicalType": "decimal",
                                    "precision": 10,
                                    "scale": 2,
                                },
                            }
                        ],
                    },
                ],
                "default": None,
            },
        ],
    }
    assert derived_avro_schema(pa.string(), "x") == "string"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.struct([("a b", pa.int8())]), "the column 'value.a b' can't be a name in Avro"),
        (pa.struct([("a", pa.uint64())]), "the column 'value.a' is of type uint64"),
        (pa.struct([("a", pa.map_(pa.int8(), pa.int8()))]), "keys of Avro's maps are strings"),
        (pa.struct([("a", pa.list_(pa.duration("s")))]), r"the column 'value.a\[\]' is of type"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "more than one field 'a'"),
    ],
    ids=str,
)
def test_a_column_without_a_form_in_avro_is_named(kind: pa.DataType, said: str) -> None:
    with pytest.raises(ColumnError, match=said):
        derived_avro_schema(kind, "Row")


def test_days_and_times_before_1970(form: str) -> None:
    early = datetime(1901, 1, 1, 1, 1, 1, 1000, tzinfo=UTC)
    got = one(form, pa.timestamp("us", "UTC"), long("timestamp-millis"), early)
    assert got == [early]
    assert got[0] - early == timedelta()
