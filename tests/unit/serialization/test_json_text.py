"""JSON with orjson and without it: the same values and the same classes of errors."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, UserDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import orjson
import pydantic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioproducer.errors import SerializationError
from aioproducer.serialization import JsonDeserializer, JsonSerializer, json_documents
from aioproducer.serialization.json_documents import JsonEncoder, decode_json


def outcome(call: Callable[[], Any]) -> tuple[str, type[Exception] | None]:
    """The value with the types of its parts, or the class of the error."""
    try:
        return repr(call()), None
    except Exception as error:
        return "", SerializationError if isinstance(error, TypeError) else type(error)


def with_and_without_orjson(call: Callable[[], Any]) -> list[Any]:
    assert vars(json_documents)["orjson"] is orjson
    found = [outcome(call)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "orjson", None)
        found.append(outcome(call))
    return found


# --- reading ------------------------------------------------------------------------------------

NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
STRINGS = st.lists(
    st.sampled_from(["a", "é", "😀", "\\n", "\\/", "\\\\", "\\u0041", "\\uD83D", "\\ude00", "\x7f"])
    | st.sampled_from(["\t", "\\x", "\x00", "\u2028", "1" * 19]),
    max_size=6,
).map(lambda parts: f'"{"".join(parts)}"')
CONSTANTS = st.sampled_from(["true", "false", "null", "NaN", "Infinity", "-Infinity", "nul", "01"])
TEXTS = st.recursive(
    NUMBERS | STRINGS | CONSTANTS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=4).map(
            lambda parts: f"{{{','.join(f'{name}:{each}' for name, each in parts)}}}"
        )
        | inner.map(lambda text: f" {text}\n")
    ),
    max_leaves=12,
)


@given(TEXTS.map(str.encode) | st.binary(max_size=8))
@example(b"18446744073709551615")
@example(b"18446744073709551616")
@example(b"-9223372036854775808")
@example(b"-9223372036854775809")
@example(b'{"n":[1,123456789012345678901234567890]}')
@example(b"1" * 5000)
@example(b"1e400")
@example(b"-0")
@example(b"-0.0")
@example(b'{"a":1,"a":2}')
@example(rb'"\ud800"')
@example(rb'{"":"\ud83d","":[]}')
@example(rb'"\\ud800"')
@example(rb'"\udc00\ud800"')
@example(b'"\xed\xa0\x80"')
@example(b"\xef\xbb\xbf1")
@example("1".encode("utf-16"))
@settings(max_examples=250)
def test_any_text_is_read_as_the_same_value(text: bytes) -> None:
    reader = JsonDeserializer[Any]()
    fast, plain = with_and_without_orjson(lambda: reader.deserialize("orders", text))
    assert fast == plain
    assert fast[1] in (None, SerializationError)


@pytest.mark.parametrize("digits", ["123456789012345678901234567890", "-9223372036854775809"])
def test_integers_of_any_size_are_exact(digits: str) -> None:
    assert decode_json(digits.encode()) == int(digits)


# --- writing ------------------------------------------------------------------------------------


class Number(int):
    def __repr__(self) -> str:
        return "a number"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "a text"


class Ratio(float):
    pass


class Doubled(dict[str, Any]):
    """A multi-dict: its storage is not what its methods return."""

    def items(self) -> Any:
        return [(name, [each, each]) for name, each in super().items()]


class Pair(NamedTuple):
    left: Any
    right: Any


class Color(enum.Enum):
    RED = "red"
    BOX = (1, 2)


class Level(int, enum.Enum):
    """Members whose value is not the number that they are."""

    LOW = (1, "low")

    def __new__(cls, number: int, label: str) -> Level:
        member = int.__new__(cls, number)
        member._value_ = label
        return member

    def __repr__(self) -> str:
        return self.name


class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Order:
    number: Any
    _seen: bool = False
    tags: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    row: Any


@dataclass
class Seat(Place):
    more: Any = 2


class Struct(msgspec.Struct):
    inner: Any


class Model(pydantic.BaseModel):
    inner: Any


ODD_ZONE = timezone(timedelta(hours=1, minutes=2, seconds=3))
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-5)), ODD_ZONE])
TEXT = st.text(st.characters(codec="utf-8"))
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text()
    | st.uuids()
    | st.datetimes(timezones=ZONES)
    | st.times(timezones=ZONES)
    | st.dates()
    | st.decimals()
    | st.binary(max_size=2)
    | st.sampled_from([*Color, *Level, *Mode, Mode.READ | Mode.WRITE, object(), {1}, Order])
    | st.integers(-(2**70), 2**70).map(Number)
    | st.floats().map(Ratio)
    | TEXT.map(Text)
)
KEYS = TEXT | st.integers() | st.booleans() | st.none() | TEXT.map(Text) | st.sampled_from([*Level])
OBJECTS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT, inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=2)
        | st.dictionaries(TEXT, inner, max_size=2).map(Doubled)
        | st.dictionaries(TEXT, inner, max_size=2).map(OrderedDict)
        | st.builds(Pair, inner, inner)
        | st.builds(Order, inner)
        | st.builds(Place, inner)
        | st.builds(Seat, inner)
        | st.builds(Struct, inner)
        | st.builds(Model, inner=inner)
    ),
    max_leaves=8,
)
DEFAULTS = st.sampled_from(
    [None, str, lambda _: math.nan, lambda _: Ratio("inf"), lambda _: [None]]
)


@given(OBJECTS, DEFAULTS)
@example([Seat(1)], None)
@example(Ratio(1.5), str)
@example([Pair(1, 2)], str)
@example(Doubled(a=1), None)
@example([Level.LOW], None)
@example({"at": datetime(1900, 1, 1, tzinfo=ODD_ZONE)}, None)
@example("\ud800", None)
@example({1: "a", "1": "b"}, None)
@settings(max_examples=250)
def test_any_object_is_written_as_the_same_value(value: Any, default: Any) -> None:
    writer = JsonSerializer[Any](default=default)

    def write() -> Any:
        return json.loads(writer.serialize("orders", value, []), object_pairs_hook=list)

    fast, plain = with_and_without_orjson(write)
    assert fast == plain


@given(OBJECTS, DEFAULTS.filter(bool))
@example({"a": None, "b": [Pair(1, math.nan)]}, str)
@example({"a": [object()]}, lambda _: math.nan)
@settings(max_examples=150)
def test_what_refuses_nan_refuses_it_both_ways(value: Any, default: Any) -> None:
    encoder = JsonEncoder(lambda _: default, refuse_nan=True)
    fast, plain = with_and_without_orjson(
        lambda: json.loads(encoder.encode(value), object_pairs_hook=list)
    )
    assert fast == plain


@pytest.mark.parametrize("by_orjson", [True, False])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Number(7), "7"),
        (Text("a"), '"a"'),
        (Ratio(1.5), "1.5"),
        (Pair(1, "a"), '[1,"a"]'),
        (Doubled(a=1), '{"a":[1,1]}'),
        ([Level.LOW, Mode.WRITE], '["low",2]'),
        ([Seat(1)], '[{"row":1,"more":2}]'),
        (datetime(1900, 1, 1, tzinfo=ODD_ZONE), '"1900-01-01T00:00:00+01:02:03"'),
        (time(1, 2, tzinfo=UTC), '"01:02:00+00:00"'),
        ([date(2024, 2, 29), UUID(int=1)], f'["2024-02-29","{UUID(int=1)}"]'),
        ({"a": -0.0, "b": 2**64}, '{"a":-0.0,"b":18446744073709551616}'),
        (UserDict(a=1), '"default"'),
        ([Decimal("1.10"), None], '["1.10",null]'),
    ],
)
def test_the_text_of_what_orjson_writes_otherwise(
    monkeypatch: pytest.MonkeyPatch, value: Any, text: str, by_orjson: bool
) -> None:
    if not by_orjson:
        monkeypatch.setattr(json_documents, "orjson", None)
    writer = JsonSerializer[Any](default=lambda _: "default")
    assert writer.serialize("orders", value, []).decode() == text


def test_nulls_are_no_nan() -> None:
    encoder = JsonEncoder(lambda _: str, refuse_nan=True)
    assert encoder.encode({"a": [None, 1.5, "null"]}) == b'{"a":[null,1.5,"null"]}'
