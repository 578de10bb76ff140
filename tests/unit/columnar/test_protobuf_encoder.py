"""Columns matched with messages that somebody else declared."""

from __future__ import annotations

import pickle
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aioproducer.engine.columnar import derived_message, protobuf_encoder
from aioproducer.errors import ColumnError, SerializationError
from tests.support.arrow_values import FORMS, encoded
from tests.support.proto_text import derived_proto

DECLARED = """
syntax = "{syntax}";
package org.example;
import "google/protobuf/timestamp.proto";
enum Color {{ NONE = 0; RED = 3; NEGATIVE = -1; }}
message Inner {{ {optional} string name = 7; }}
message Row {{
{fields}
}}
"""


NUMBERS = (
    *("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64"),
    *("uint32", "fixed32", "uint64", "fixed64"),
)


def declared(folder: Path, fields: str, syntax: str = "proto3") -> Any:
    """The generated class of ``Row``, by protoc."""
    optional = "optional" if syntax == "proto2" else ""
    text = DECLARED.format(fields=fields, syntax=syntax, optional=optional)
    (folder / "row.proto").write_text(text, "utf-8")
    well_known = str(import_module("importlib.resources").files("grpc_tools") / "_proto")
    protoc = import_module("grpc_tools.protoc")
    arguments = ["--include_imports", f"-I{folder}", f"-I{well_known}"]
    out = f"--descriptor_set_out={folder / 'set'}"
    assert protoc.main(["protoc", *arguments, out, str(folder / "row.proto")]) == 0
    files = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet()
    files.ParseFromString((folder / "set").read_bytes())
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    for each in files.file:
        pool.Add(each)
    row = pool.FindMessageTypeByName("org.example.Row")
    return import_module("google.protobuf.message_factory").GetMessageClass(row)


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def struct(**columns: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def test_each_type_of_number(form: str, tmp_path: Path) -> None:
    fields = [f"{kind} f_{kind} = {number};" for number, kind in enumerate(reversed(NUMBERS), 1)]
    packed = [f"repeated {kind} r_{kind} = {number};" for number, kind in enumerate(NUMBERS, 100)]
    loose = [
        f"repeated {kind} l_{kind} = {number} [packed = false];"
        for number, kind in enumerate(NUMBERS, 200)
    ]
    row = declared(tmp_path, "\n".join([*fields, *packed, *loose]))
    columns, values = {}, {}
    for name in NUMBERS:
        bits, signed = int(name[-2:]), not name.startswith(("u", "f"))
        kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
        least, greatest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        columns[f"f_{name}"] = pa.array([least, greatest, 0, None], kind)
        values[f"f_{name}"] = [least, greatest, 0, 0]
        for letter in "rl":
            lists = [[least, greatest], [0, 1], [], []]
            columns[f"{letter}_{name}"] = pa.array([*lists[:3], None], pa.list_(kind))
            values[f"{letter}_{name}"] = lists
    array = struct(**columns)
    made = encoded(form, protobuf_encoder(array.type, row), array).to_pylist()
    for number, record in enumerate(made):
        expected = row(**{name: each[number] for name, each in values.items()})
        assert row.FromString(record) == expected
        assert record == expected.SerializeToString(deterministic=True)


def test_other_types(form: str, tmp_path: Path) -> None:
    row = declared(
        tmp_path,
        "string text = 1; bytes data = 2; Color color = 3; Color number = 4; Inner inner = 5; "
        "bool flag = 6; float f = 7; double d = 8; double wide = 9; repeated Inner inners = 10; "
        "map<int64, Inner> map = 11; google.protobuf.Timestamp at = 12; int64 day = 13; "
        "repeated Color colors = 14; string price = 15; string unused = 16;",
    )
    array = struct(
        text=pa.array(["ü", ""]),
        data=pa.array(["x", "\0"]),
        color=pa.array(["RED", "NONE"]).dictionary_encode(),
        number=pa.array([-1, 0], pa.int8()),
        inner=pa.array([{"name": "n" * 200}, {"name": None}]),
        flag=pa.array([True, False]),
        f=pa.array([0.5, -0.0], pa.float32()),
        d=pa.array([1.5, 0.0]),
        wide=pa.array([0.5, None], pa.float32()),
        inners=pa.array([[{"name": ""}, {"name": "b"}], []]),
        map=pa.array(
            [[(5, {"name": "v" * 20_000}), (0, {})], None],
            pa.map_(pa.int64(), pa.struct([("name", pa.string())])),
        ),
        at=pa.array([-1, 0], pa.timestamp("ms", "UTC")),
        day=pa.array([1, -2], pa.date32()),
        colors=pa.array([["RED", "NEGATIVE"], ["NONE"]]),
        price=pa.array([Decimal("-1.05"), Decimal("0.00")]),
    )
    encoder = pickle.loads(pickle.dumps(protobuf_encoder(array.type, row.DESCRIPTOR)))
    first, second = (row.FromString(each) for each in encoded(form, encoder, array).to_pylist())
    expected = row(
        text="ü",
        data=b"x",
        color="RED",
        number=-1,
        flag=True,
        f=0.5,
        d=1.5,
        wide=0.5,
        day=1,
        price="-1.05",
        colors=["RED", "NEGATIVE"],
    )
    expected.inner.name = "n" * 200
    expected.inners.add(name="")
    expected.inners.add(name="b")
    expected.map[5].name = "v" * 20_000
    expected.map[0].SetInParent()
    expected.at.FromMilliseconds(-1)
    assert first == expected
    expected = row(data=b"\0", f=-0.0, day=-2, price="0.00", colors=["NONE"])
    expected.inner.SetInParent()
    expected.at.SetInParent()
    assert second == expected
    made = encoded(form, encoder, array).to_pylist()[1]
    assert made == expected.SerializeToString(deterministic=True)


def test_a_required_field(form: str, tmp_path: Path) -> None:
    row = declared(tmp_path, "required int32 a = 1; optional int32 b = 2;", "proto2")
    kind = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    encoder = protobuf_encoder(kind, row)
    made = encoded(form, encoder, pa.array([{"a": 0, "b": 0}, None, {"a": 1}], kind)).to_pylist()
    assert made == [b"\x08\0\x10\0", None, b"\x08\1"]
    with pytest.raises(SerializationError, match=r"row 1: 'value.a' .* is null"):
        encoded(form, encoder, pa.array([{"a": 0}, {"b": 1}], kind))
    with pytest.raises(ColumnError, match="needs the field 'a'; the column 'value' lacks it"):
        protobuf_encoder(pa.struct([("b", pa.int32())]), row)


@pytest.mark.parametrize(
    ("field", "kind", "said"),
    [
        ("int32 a = 1;", pa.int64(), "the column 'value.a' is of type int64, the message's field"),
        ("uint32 a = 1;", pa.int32(), "the message's field uint32"),
        ("float a = 1;", pa.float64(), "the message's field float"),
        ("string a = 1;", pa.binary(), "the message's field string"),
        ("Inner a = 1;", pa.string(), "the message's field org.example.Inner"),
        ("Color a = 1;", pa.int64(), "the message's field org.example.Color"),
        ("repeated int32 a = 1;", pa.int32(), "the message's field repeated int32"),
        ("int32 a = 1;", pa.list_(pa.int32()), "is of type list<item: int32>"),
        ("int64 a = 1;", pa.timestamp("us", "UTC"), "the message's field int64"),
        ("google.protobuf.Timestamp a = 1;", pa.timestamp("us"), "google.protobuf.Timestamp"),
        ("int32 b = 1;", pa.int32(), "has no field for the column 'value.a'; it has b"),
        ("map<string, int32> a = 1;", pa.list_(pa.int32()), "is of type list"),
        ("int64 a = 1;", pa.duration("us"), "is of type duration"),
    ],
)
def test_a_column_that_does_not_fit_is_named(
    field: str, kind: pa.DataType, said: str, tmp_path: Path
) -> None:
    row = declared(tmp_path, field)
    with pytest.raises(ColumnError) as raised:
        protobuf_encoder(pa.struct([("a", kind)]), row)
    assert said in str(raised.value)


def test_one_of_a_oneof_may_be_a_column(tmp_path: Path) -> None:
    row = declared(tmp_path, "oneof choice { int32 a = 1; int32 b = 2; }")
    protobuf_encoder(pa.struct([("b", pa.int32())]), row)
    with pytest.raises(ColumnError, match="are of the same oneof, 'choice'"):
        protobuf_encoder(pa.struct([("a", pa.int32()), ("b", pa.int32())]), row)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            pa.array([[], [None]], pa.list_(pa.int32())),
            "row 1: 'value.a[]' (of type int32) is null",
        ),
        (pa.array([0, 2**55], pa.timestamp("us", "UTC")).view(pa.timestamp("s", "UTC")), "range"),
        (pa.array([0, 1], pa.timestamp("ns")), "is finer than"),
        (pa.array([b"", b"\xff"]).view(pa.string()), "is not UTF-8"),
    ],
    ids=["null item", "year", "finer", "text"],
)
def test_a_value_that_does_not_fit_is_said_by_row(form: str, array: pa.Array, said: str) -> None:
    rows = struct(a=array)
    encoder = protobuf_encoder(rows.type, derived_message(rows.type, "Row"))
    with pytest.raises(SerializationError) as raised:
        encoded(form, encoder, rows)
    assert said in str(raised.value)
    assert str(raised.value).startswith("row 1: ")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.int32(), "a message needs a struct"),
        (pa.struct([("a", pa.list_(pa.list_(pa.int8())))]), r"the column 'value.a\[\]'"),
        (pa.struct([("a", pa.map_(pa.string(), pa.list_(pa.int8())))]), "put it into a struct"),
        (pa.struct([("a", pa.map_(pa.float32(), pa.int8()))]), "keys of maps"),
        (pa.struct([("a-b", pa.int8())]), "can't be a name in Protocol Buffers"),
        (pa.struct([("a_b", pa.int8()), ("aB", pa.int8())]), "have the same name"),
        (pa.struct([("a", pa.null())]), "which a message can't contain"),
        (
            pa.struct([("a", pa.map_(pa.string(), pa.int8())), ("a_entry", pa.struct([]))]),
            "needs two messages 'AEntry'",
        ),
    ],
    ids=str,
)
def test_a_column_without_a_form_is_named(kind: pa.DataType, said: str) -> None:
    with pytest.raises(ColumnError, match=said):
        derived_message(kind, "Row")


def test_the_derived_text() -> None:
    kind = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("line_item", pa.struct([("price", pa.decimal128(10, 2))])),
            ("by_name", pa.map_(pa.string(), pa.float64())),
        ]
    )
    assert derived_proto(kind, "Order", "org.example") == (
        'syntax = "proto3";\n\npackage org.example;\n\n'
        'import "google/protobuf/timestamp.proto";\n\n'
        "message Order {\n"
        "  int64 id = 1;\n"
        "  google.protobuf.Timestamp at = 2;\n"
        "  repeated string tags = 3;\n"
        "  LineItem line_item = 4;\n"
        "  map<string, double> by_name = 5;\n"
        "\n"
        "  message LineItem {\n"
        "    optional string price = 1;\n"
        "  }\n"
        "}\n"
    )
    assert "  .google.protobuf.Timestamp at = 2;" in derived_proto(kind, "Order", "com.google.shop")
