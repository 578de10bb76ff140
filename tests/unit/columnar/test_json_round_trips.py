"""Random columns in JSON: both forms write the same bytes, and they are what the values say."""

from __future__ import annotations

import base64
import json
import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import jsonschema_rs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.engine.columnar import derived_json_schema, json_encoder
from aioproducer.errors import SerializationError
from tests.support.arrow_values import FORMS, columns, encoded, for_arrow

pytestmark = [
    pytest.mark.any_form,
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
]
RELAXED: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]
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


def clock(value: int, parts: int) -> str:
    seconds, fraction = divmod(value, parts)
    text = str(timedelta(seconds=seconds)).rjust(8, "0")
    nanos = f"{fraction * (10**9 // parts):09}"
    for digits in (0, 3, 6, 9):
        if not nanos[digits:].strip("0"):
            return f"{text}.{nanos[:digits]}" if digits else text
    raise AssertionError(nanos)


def as_read(kind: pa.DataType, value: Any) -> Any:
    """A value as a parser reads it that takes floats as decimals; None in a struct is left out."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            each.name: as_read(each.type, value[each.name])
            for each in kind
            if value[each.name] is not None
        }
    if pa.types.is_map(kind):
        return {key: as_read(kind.item_type, each) for key, each in value.items()}
    if pa.types.is_nested(kind):
        return [as_read(kind.value_type, each) for each in value]
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
        return clock(value, PARTS[kind.unit])
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
        assert same(array.type, value, as_read(array.type, row))
        validator.validate(json.loads(record[1:]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_are_those_of_python(numbers: list[float]) -> None:
    array = pa.array(numbers, pa.float64())
    for form in FORMS:
        made = encoded(form, json_encoder(array.type), array).to_pylist()
        assert made == [repr(each).encode() for each in numbers]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_small_floats_have_no_more_digits_than_they_need(numbers: list[float]) -> None:
    array = pa.array(numbers, pa.float32())
    made = [encoded(form, json_encoder(array.type), array).to_pylist() for form in FORMS]
    assert all(each == made[0] for each in made)
    for text, number in zip(made[0], numbers, strict=True):
        assert struct.pack("<f", float(text)) == struct.pack("<f", number)


def test_all_characters() -> None:
    text = "".join(map(chr, [*range(0x300), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x1F600, 0x10FFFF]))
    array = pa.array([text, text[::-1], *text])
    for each in FORMS:
        made = encoded(each, json_encoder(array.type), array).to_pylist()
        assert made == [json.dumps(one.as_py(), ensure_ascii=False).encode() for one in array]


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


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_largest_integers(form: str) -> None:
    array = pa.array([2**64 - 1, 0], pa.uint64())
    assert encoded(form, json_encoder(array.type), array).to_pylist() == [b"%d" % (2**64 - 1), b"0"]
    array = pa.array([-(2**63)])
    assert encoded(form, json_encoder(array.type), array).to_pylist() == [b"%d" % -(2**63)]
