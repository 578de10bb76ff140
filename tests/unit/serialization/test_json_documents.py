"""JSON by orjson and by the standard library: the same bytes."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.serialization import JsonDeserializer, JsonSerializer, json_documents


@pytest.fixture(params=["orjson", "the standard library"])
def _writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "orjson":
        monkeypatch.setattr(json_documents, "orjson", None)
    return


def written(value: Any, **arguments: Any) -> bytes:
    return JsonSerializer[Any](**arguments).serialize("orders", value, [])


class Color(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Name(str, enum.Enum):  # noqa: UP042 - as many applications have them
    ADA = "Ada"


@dataclass
class Order:
    number: int
    placed: datetime | None = None
    _seen: bool = False
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    row: int
    _secret: int = 1


class Pair(NamedTuple):
    left: int
    right: str


class Struct(msgspec.Struct):
    number: int
    price: Decimal


class Model(pydantic.BaseModel):
    number: int
    price: Decimal
    at: datetime | None = None


PLUS_2 = timezone(timedelta(hours=2))


@pytest.mark.usefixtures("_writer")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, "b": [True, None, 1.5]}, '{"a":1,"b":[true,null,1.5]}'),
        ([], "[]"),
        ('Grüße \u2028\x7f\x01"\\\n', '"Grüße \u2028\x7f\\u0001\\"\\\\\\n"'),
        ((1, 2), "[1,2]"),
        (Pair(1, "a"), '[1,"a"]'),
        ({2: "a", True: "b", None: "c"}, '{"2":"a","true":"b","null":"c"}'),
        (2**70, str(2**70)),
        (math.nan, "null"),
        ({"a": [math.inf, 1.0], "b": "NaN"}, '{"a":[null,1.0],"b":"NaN"}'),
        ({1: math.nan}, '{"1":null}'),
        (Color.RED, '"red"'),
        ([Size.LARGE, Name.ADA], '[3,"Ada"]'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.10"), '"1.10"'),
        (date(2024, 2, 29), '"2024-02-29"'),
        (time(1, 2, 3, 4), '"01:02:03.000004"'),
        (datetime(2024, 2, 29, 1, 2, 3), '"2024-02-29T01:02:03"'),
        (datetime(2024, 2, 29, 1, 2, 3, 4, UTC), '"2024-02-29T01:02:03.000004+00:00"'),
        (datetime(2024, 2, 29, tzinfo=PLUS_2), '"2024-02-29T00:00:00+02:00"'),
        (Order(1, tags=["a"]), '{"number":1,"placed":null,"tags":["a"]}'),
        ([Place(3)], '[{"row":3}]'),
        (Struct(1, Decimal("2.50")), '{"number":1,"price":"2.50"}'),
        ([Struct(1, Decimal(2))], '[{"number":1,"price":"2"}]'),
        (Model(number=1, price=Decimal("2.50")), '{"number":1,"price":"2.50","at":null}'),
        (
            {"m": Model(number=1, price=Decimal(2), at=datetime(2024, 1, 1, tzinfo=UTC))},
            '{"m":{"number":1,"price":"2","at":"2024-01-01T00:00:00Z"}}',
        ),
    ],
)
def test_the_bytes(value: Any, expected: str) -> None:
    made = written(value)
    assert type(made) is bytes
    assert made.decode() == expected


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-1e15, 1e15).filter(lambda number: number == 0 or abs(number) > 1e-4)
    | st.text()
    | st.uuids()
    | st.datetimes(timezones=st.sampled_from([None, UTC, PLUS_2]))
    | st.dates()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_both_write_the_same(value: Any) -> None:
    by_orjson = written(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "orjson", None)
        assert written(value) == by_orjson
        read = JsonDeserializer[Any]().deserialize("orders", by_orjson)
    assert read == json.loads(by_orjson) == JsonDeserializer[Any]().deserialize("orders", by_orjson)


@dataclass
class Base:
    base: int


@dataclass(slots=True)
class InSlots(Base):
    slot: int


@dataclass
class NotInSlots(Place):
    more: int = 2


class Undecorated(InSlots):
    pass


@pytest.mark.usefixtures("_writer")
def test_dataclasses_with_bases() -> None:
    assert written(InSlots(1, 2)) == b'{"base":1,"slot":2}'
    assert written([InSlots(1, 2)]) == b'[{"base":1,"slot":2}]'
    assert written(NotInSlots(1)) == b'{"row":1,"more":2}'
    assert written(Undecorated(1, 2)) == b'{"base":1,"slot":2}'


@pytest.mark.usefixtures("_writer")
def test_a_default_for_what_has_no_json() -> None:
    assert written({"a": {3, 1, 2}}, default=sorted) == b'{"a":[1,2,3]}'
    assert written([b"ab"], default=bytes.hex) == b'["6162"]'

    class Holder(msgspec.Struct):
        inner: Any

    assert written(Holder(complex(1, 2)), default=str) == b'{"inner":"(1+2j)"}'
    assert written([Holder(complex(1, 2))], default=str) == b'[{"inner":"(1+2j)"}]'


@pytest.mark.usefixtures("_writer")
@pytest.mark.parametrize("value", [{1, 2}, b"abc", [object()], {UUID(int=1): 1}, "\ud800"])
def test_what_has_no_json(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        written(value)


@pytest.mark.usefixtures("_writer")
def test_a_circle() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(SerializationError, match=r"a list for topic 'orders': .*contains itself"):
        written(circle)


@pytest.mark.usefixtures("_writer")
def test_reading() -> None:
    reader = JsonDeserializer[Any]()
    assert reader.deserialize("orders", b'{"a":[1,null]}') == {"a": [1, None]}
    assert reader(b"1") == 1
    assert reader.deserialize("orders", None) is None
    assert reader.deserialize("orders", memoryview(b"1")) == 1  # type: ignore[arg-type]
    for data in (
        b"",
        b"{",
        b"\xff",
        b"NaN",
        b"[" * 100_000,
        "1".encode("utf-16"),
        b"\xef\xbb\xbf1",
    ):
        with pytest.raises(SerializationError, match=r"not the expected JSON \(topic 'orders'\)"):
            reader.deserialize("orders", data)


@pydantic.dataclasses.dataclass
class Validated:
    number: int = pydantic.Field(alias="no", gt=0)


def test_reading_into_a_dataclass_of_pydantic() -> None:
    reader = JsonDeserializer(Validated)
    assert reader.deserialize("orders", b'{"no":1}') == Validated(no=1)
    with pytest.raises(SerializationError, match="greater than 0"):
        reader.deserialize("orders", b'{"no":0}')


def test_reading_into_classes() -> None:
    data = b'{"number":1,"price":"2.5"}'
    struct = JsonDeserializer(Struct).deserialize("orders", data)
    assert struct == Struct(1, Decimal("2.5"))
    model = JsonDeserializer(Model).deserialize("orders", data)
    assert model == Model(number=1, price=Decimal("2.5"))
    assert JsonDeserializer(Order).deserialize("orders", b'{"number":1}') == Order(1)
    for reader in (JsonDeserializer(Struct), JsonDeserializer(Model), JsonDeserializer(Order)):
        with pytest.raises(SerializationError, match="number"):
            reader.deserialize("orders", b'{"number":"x","price":"2"}')
    with pytest.raises(ConfigError, match="pydantic model, a msgspec struct or a dataclass"):
        JsonDeserializer(int)
