"""Random columns in Avro, JSON and Protobuf: both forms write the same bytes, which others read."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

import fastavro
import jsonschema_rs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.engine.columnar import (
    avro_encoder,
    derived_avro_schema,
    derived_json_schema,
    derived_message,
    json_encoder,
    protobuf_encoder,
)
from aioproducer.engine.columnar.protobuf_plan import derived_file
from aioproducer.errors import SerializationError
from tests.support.arrow_values import FORMS, columns, encoded, for_arrow, message_types
from tests.support.proto_text import derived_proto

pytestmark = pytest.mark.any_form


RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large]


def plain(schema: Any) -> Any:
    """A schema without its logical types, so that a reader gives numbers and bytes."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, dict):
        return {key: plain(each) for key, each in schema.items() if key != "logicalType"}
    return schema


def as_avro(kind: pa.DataType, value: Any) -> Any:
    """A value as fastavro reads it with such a schema."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: as_avro(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        return {key: as_avro(kind.item_type, each) for key, each in value.items()}
    if pa.types.is_nested(kind):
        return [as_avro(kind.value_type, each) for each in value]
    if pa.types.is_decimal(kind):
        size = ((value if value >= 0 else ~value).bit_length() + 8) // 8
        return value.to_bytes(size, "big", signed=True)
    if pa.types.is_float32(kind):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "s":
        return value * 1000
    return value


def read(record: bytes | None, schema: Any) -> Any:
    if record is None:
        return None
    stream = io.BytesIO(record)
    value = fastavro.schemaless_reader(stream, schema, None)
    assert not stream.read(), "bytes are left over"
    return value


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(columns())
def test_each_form_writes_what_fastavro_reads(column: Any) -> None:
    array, rows = column
    schema = derived_avro_schema(array.type, "Row", "org.example")
    encoder: Any = avro_encoder(array.type, schema, b"\0\0\0\0\7")
    made = {form: encoded(form, encoder, array).to_pylist() for form in FORMS}
    reference = made.pop("reference")
    assert all(each == reference for each in made.values())
    reader = fastavro.parse_schema(plain(schema))
    assert all(each is None or each[:5] == b"\0\0\0\0\7" for each in reference)
    values = [read(each and each[5:], reader) for each in reference]
    assert values == [as_avro(array.type, each) for each in rows]


PARTS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_writable(kind: pa.DataType, value: Any) -> bool:
    """JSON has no infinity, and ISO 8601 no year behind 9999."""
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return all(is_writable(each.type, value[each.name]) for each in kind)
    if pa.types.is_map(kind):
        return all(is_writable(kind.item_type, each) for each in value.values())
    if pa.types.is_nested(kind):
        return all(is_writable(kind.value_type, each) for each in value)
    if pa.types.is_floating(kind):
        return math.isfinite(value)
    if pa.types.is_date(kind):
        return bool(-719_162 <= value <= 2_932_896)
    if pa.types.is_timestamp(kind):
        return bool(-62_135_596_800 <= value // PARTS[kind.unit] < 253_402_300_800)
    return True


def clock(value: int, parts: int, most_digits: Iterable[int] = (0, 3, 6, 9)) -> str:
    seconds, fraction = divmod(value, parts)
    text = str(timedelta(seconds=seconds)).rjust(8, "0")
    nanos = f"{fraction * (10**9 // parts):09}"
    for digits in most_digits:
        if not nanos[digits:].strip("0"):
            return f"{text}.{nanos[:digits]}" if digits else text
    raise AssertionError(nanos)


def as_json(kind: pa.DataType, value: Any) -> Any:
    """A value as a parser reads it that takes floats as decimals; None in a struct is left out."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            each.name: as_json(each.type, value[each.name])
            for each in kind
            if value[each.name] is not None
        }
    if pa.types.is_map(kind):
        return {key: as_json(kind.item_type, each) for key, each in value.items()}
    if pa.types.is_nested(kind):
        return [as_json(kind.value_type, each) for each in value]
    if pa.types.is_decimal(kind):
        number = for_arrow(kind, value)
        return int(number) if kind.scale == 0 else number
    if pa.types.is_float64(kind):
        return Decimal(repr(float(value)))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if pa.types.is_date(kind):
        return (date(1970, 1, 1) + timedelta(value)).isoformat()
    if pa.types.is_time(kind):
        return clock(value, PARTS[kind.unit], range(10))
    if pa.types.is_timestamp(kind):
        days, rest = divmod(value, 86_400 * PARTS[kind.unit])
        day = (date(1970, 1, 1) + timedelta(days)).isoformat()
        time = clock(rest, PARTS[kind.unit])
        return f"{day}T{time}{'Z' if kind.tz else ''}"
    return value


def same(kind: pa.DataType, read: Any, value: Any) -> bool:
    """Equal; floats of 32 bits by their bits."""
    if value is None or read is None:
        return value is read
    if pa.types.is_struct(kind):
        return set(read) == set(value) and all(
            same(kind.field(name).type, read[name], value[name]) for name in value
        )
    if pa.types.is_map(kind):
        return set(read) == set(value) and all(
            same(kind.item_type, read[key], value[key]) for key in value
        )
    if pa.types.is_nested(kind):
        return len(read) == len(value) and all(
            same(kind.value_type, each, other) for each, other in zip(read, value, strict=True)
        )
    if pa.types.is_float32(kind):
        return struct.pack("<f", float(read)) == struct.pack("<f", value)
    return type(read) is type(value) and read == value


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(columns())
def test_each_form_writes_the_same_json(column: Any) -> None:
    array, rows = column
    encoder: Any = json_encoder(array.type, b"\0")
    if not all(is_writable(array.type, each) for each in rows):
        errors = set()
        for form in FORMS:
            with pytest.raises(SerializationError) as raised:
                encoded(form, encoder, array)
            errors.add(str(raised.value))
        assert len(errors) == 1
        return
    made = [encoded(form, encoder, array).to_pylist() for form in FORMS]
    assert all(each == made[0] for each in made)
    validator = jsonschema_rs.validator_for(derived_json_schema(array.type, "Row"))
    for record, row in zip(made[0], rows, strict=True):
        if row is None:
            assert record is None
            continue
        assert record[:1] == b"\0"
        value = json.loads(record[1:], parse_float=Decimal)
        assert same(array.type, value, as_json(array.type, row))
        validator.validate(json.loads(record[1:]))


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_are_those_of_python(numbers: list[float]) -> None:
    array = pa.array(numbers, pa.float64())
    for form in FORMS:
        made = encoded(form, json_encoder(array.type), array).to_pylist()
        assert made == [repr(each).encode() for each in numbers]


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_small_floats_have_no_more_digits_than_they_need(numbers: list[float]) -> None:
    array = pa.array(numbers, pa.float32())
    made = [encoded(form, json_encoder(array.type), array).to_pylist() for form in FORMS]
    assert all(each == made[0] for each in made)
    for text, number in zip(made[0], numbers, strict=True):
        assert struct.pack("<f", float(text)) == struct.pack("<f", number)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_all_characters() -> None:
    text = "".join(map(chr, [*range(0x300), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x1F600, 0x10FFFF]))
    array = pa.array([text, text[::-1], *text])
    for each in FORMS:
        made = encoded(each, json_encoder(array.type), array).to_pylist()
        assert made == [json.dumps(one.as_py(), ensure_ascii=False).encode() for one in array]


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_forms_of_values(form: str) -> None:
    zone = pa.timestamp("us", "Europe/Berlin")
    kind = pa.struct(
        [
            ("text", pa.string()),
            ("none", pa.null()),
            ("at", zone),
            ("local", pa.timestamp("ns")),
            ("price", pa.decimal128(6, 2)),
            ("whole", pa.decimal128(6, -2)),
            ("f", pa.float32()),
            ("bytes", pa.binary()),
            ('a "name"', pa.list_(pa.map_(pa.string(), pa.bool_()))),
        ]
    )
    row = {
        "text": 'ü "x"\n',
        "at": datetime(2013, 7, 1, 12, 30, 15, 20, tzinfo=UTC),
        "local": datetime(2013, 7, 1),
        "price": Decimal("-0.05"),
        "whole": Decimal("1200"),
        "f": 0.1,
        "bytes": b"\xfb\xff",
        'a "name"': [None, [("k", None), ("l", True)], []],
    }
    made = encoded(form, json_encoder(kind), pa.array([row, None, {}], kind)).to_pylist()
    assert made[0].decode() == (
        '{"text":"ü \\"x\\"\\n","at":"2013-07-01T12:30:15.000020Z","local":"2013-07-01T00:00:00",'
        '"price":-0.05,"whole":1200,"f":0.1,"bytes":"+/8=",'
        '"a \\"name\\"":[null,{"k":null,"l":true},{}]}'
    )
    assert made[1:] == [None, b"{}"]


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_largest_integers(form: str) -> None:
    array = pa.array([2**64 - 1, 0], pa.uint64())
    assert encoded(form, json_encoder(array.type), array).to_pylist() == [b"%d" % (2**64 - 1), b"0"]
    array = pa.array([-(2**63)])
    assert encoded(form, json_encoder(array.type), array).to_pylist() == [b"%d" % -(2**63)]


LOCAL: Final = {"s": (10**6, 1), "ms": (10**3, 1), "us": (1, 1), "ns": (1, 10**3)}


def without_nulls_in_lists(kind: pa.DataType, value: Any) -> Any:
    """A message has no null in a list or a map, and no instant behind the year 9999."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: without_nulls_in_lists(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        pairs = {key: without_nulls_in_lists(kind.item_type, each) for key, each in value.items()}
        return {key: each for key, each in pairs.items() if each is not None}
    if pa.types.is_nested(kind):
        items = [without_nulls_in_lists(kind.value_type, each) for each in value]
        return [each for each in items if each is not None]
    if pa.types.is_timestamp(kind) and kind.tz:
        return max(min(value, 253_402_300_799 * PARTS[kind.unit]), -62_135_596_800)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        multiply, divide = LOCAL[kind.unit]
        return value // multiply // divide * divide
    return value


def scalar(kind: pa.DataType, value: Any) -> Any:
    """A value as ``protobuf`` takes it."""
    if pa.types.is_decimal(kind):
        return f"{for_arrow(kind, value):f}"
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        multiply, divide = LOCAL[kind.unit]
        return value * multiply // divide
    return value


def fill(message: Any, kind: pa.DataType, value: Any) -> Any:
    """The message of a struct, made by ``protobuf``."""
    for field in kind:
        each = value[field.name]
        if each is None:
            continue
        if pa.types.is_struct(field.type):
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), field.type, each)
        elif pa.types.is_timestamp(field.type) and field.type.tz:
            instant(getattr(message, field.name), field.type, each)
        elif pa.types.is_map(field.type):
            for key, item in each.items():
                fill_item(getattr(message, field.name), key, field.type.item_type, item)
        elif pa.types.is_nested(field.type):
            for item in each:
                add_item(getattr(message, field.name), field.type.value_type, item)
        else:
            setattr(message, field.name, scalar(field.type, each))
    return message


def instant(message: Any, kind: pa.DataType, value: int) -> None:
    message.SetInParent()
    message.seconds, fraction = divmod(value, PARTS[kind.unit])
    message.nanos = fraction * (10**9 // PARTS[kind.unit])


def fill_item(items: Any, key: Any, kind: pa.DataType, value: Any) -> None:
    if pa.types.is_struct(kind):
        fill(items[key], kind, value)
    elif pa.types.is_timestamp(kind) and kind.tz:
        items[key].seconds, fraction = divmod(value, PARTS[kind.unit])
        items[key].nanos = fraction * (10**9 // PARTS[kind.unit])
    else:
        items[key] = scalar(kind, value)


def add_item(items: Any, kind: pa.DataType, value: Any) -> None:
    if pa.types.is_struct(kind):
        fill(items.add(), kind, value)
    elif pa.types.is_timestamp(kind) and kind.tz:
        instant(items.add(), kind, value)
    else:
        items.append(scalar(kind, value))


def has_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(
        has_maps(kind.field(number).type) for number in range(kind.num_fields)
    )


@st.composite
def messages(draw: st.DrawFn) -> Any:
    array, rows = draw(columns(message_types()))
    kind = array.type
    plain = pa.struct([kind.field(number) for number in range(kind.num_fields)])
    rows = [without_nulls_in_lists(plain, each) for each in rows]
    made = pa.array([for_arrow(plain, each) for each in rows], plain)
    start = draw(st.integers(0, len(rows)))
    return made.slice(start), rows[start:]


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(columns(message_types()))
def test_both_forms_agree_on_every_column(column: Any) -> None:
    """Also on the first value that has no form."""
    array, _ = column
    encoder: Any = protobuf_encoder(array.type, derived_message(array.type, "Row"))
    said = set()
    for form in FORMS:
        try:
            said.add(str(encoded(form, encoder, array).to_pylist()))
        except SerializationError as error:
            said.add(str(error))
    assert len(said) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=RELAXED)
@given(messages())
def test_the_messages_are_those_of_protobuf(column: Any) -> None:
    array, rows = column
    descriptor = derived_message(array.type, "Row", "org.example")
    message_class = import_module("google.protobuf.message_factory").GetMessageClass(descriptor)
    encoder: Any = protobuf_encoder(array.type, descriptor, b"\0\0")
    made = [encoded(form, encoder, array).to_pylist() for form in FORMS]
    assert all(each == made[0] for each in made)
    for record, row in zip(made[0], rows, strict=True):
        if row is None:
            assert record is None
            continue
        expected = fill(message_class(), array.type, row)
        assert record[:2] == b"\0\0"
        assert message_class.FromString(record[2:]) == expected
        if not has_maps(array.type):
            assert record[2:] == expected.SerializeToString(deterministic=True)


@settings(max_examples=30, deadline=None, suppress_health_check=RELAXED)
@given(kind=message_types())
def test_protoc_reads_the_text_as_the_derived_file(
    kind: pa.DataType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    protoc = import_module("grpc_tools.protoc")
    folder = tmp_path_factory.mktemp("protos")
    (folder / "Row.proto").write_text(derived_proto(kind, "Row", "org.example"), "utf-8")
    well_known = str(import_module("importlib.resources").files("grpc_tools") / "_proto")
    arguments = [f"-I{folder}", f"-I{well_known}", f"--descriptor_set_out={folder / 'set'}"]
    assert protoc.main(["protoc", *arguments, str(folder / "Row.proto")]) == 0
    files = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet()
    files.ParseFromString((folder / "set").read_bytes())
    derived = derived_file(kind, "Row", "org.example", "value")
    for file in (files.file[0], derived):
        comparable(file.message_type[0])
    assert files.file[0] == derived


def comparable(message: Any) -> None:
    """protoc adds names for JSON, and has the entries of maps at other places."""
    for field in message.field:
        field.ClearField("json_name")
    for each in message.nested_type:
        comparable(each)
    message.nested_type.sort(key=lambda each: each.name)
