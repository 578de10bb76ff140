"""Our messages and kio's, both as plain values: mappings for structs, and numbers for times."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from random import Random
from typing import Any, Final, Union, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from aioproducer.engine.protocol import Schema, response_schema
from tests.support.kio_messages import api_of

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def kios_reading(kind: Any, body: bytes) -> Any:
    """What kio reads in a response that ends with the last byte."""
    _, used = entity_reader(kind.__header_schema__)(body, 0)
    entity, size = entity_reader(kind)(body, used)
    assert used + size == len(body)
    return entity


def plain(message: Any) -> Any:
    """The values of one of our messages."""
    if hasattr(message, "_fields"):
        return {name: plain(value) for name, value in message._asdict().items()}
    if isinstance(message, tuple):
        return [plain(each) for each in message]
    assert message is None or type(message) in (bool, int, str, bytes, UUID), repr(message)
    return message


def expected(entity: Any, code: int | None = None) -> dict[str, Any]:
    """The values that our message has to have where kio's response, or a struct in
    it, is ``entity``.

    A list that the version lacks is None, and another field has its default. ``code``: in place
    of every error code.
    """
    return _values(entity, response_schema(api_of(type(entity))), code)


def _values(entity: Any, schema: Schema, code: int | None) -> dict[str, Any]:
    struct = getattr(schema, type(entity).__name__)
    values: dict[str, Any] = dict.fromkeys(struct._fields)
    for name, default in struct._field_defaults.items():
        values[name] = None if default == () else plain(default)
    for each in fields(entity):
        names = (each.name, f"{each.name}_ms", f"{each.name}_or_member_epoch")
        name = next((name for name in names if name in values), "")
        assert name, f"{struct.__name__} has no {each.name}"
        value = getattr(entity, each.name)
        if name.endswith("error_code"):
            values[name] = int(value) if code is None else code
        elif each.metadata.get("kafka_type") == "datetime_i64":
            values[name] = -1 if value is None else (value - _EPOCH) // _MILLISECOND
        else:
            values[name] = _value(value, schema, code)
    return values


def _value(value: Any, schema: Schema, code: int | None) -> Any:
    if isinstance(value, tuple):
        return [_value(each, schema, code) for each in value]
    if is_dataclass(value):
        return _values(value, schema, code)
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    return value


# --- messages with all kinds of values -----------------------------------------------------------


def varied(kind: Any, random: Random) -> Any:
    """An entity of one of kio's classes with values that differ; a few are null, empty or long."""
    return kind(
        **{
            each.name: _any_value(each, random)
            for each in fields(kind)
            if each.default is MISSING or random.random() < 0.8
        }
    )


def _any_value(field: Any, random: Random) -> Any:
    declared, kafka_type = field.type, field.metadata.get("kafka_type")
    if get_origin(declared) in (Union, types.UnionType):
        if random.random() < 0.2:
            return None
        declared = next(each for each in get_args(declared) if each is not types.NoneType)
    if get_origin(declared) is tuple:
        inner = get_args(declared)[0]
        return tuple(_one(inner, kafka_type, random) for _ in range(random.choice((0, 1, 2, 3))))
    return _one(declared, kafka_type, random)


def _one(declared: Any, kafka_type: str | None, random: Random) -> Any:
    return varied(declared, random) if kafka_type is None else _SCALARS[kafka_type](random)


def _number(bits: int) -> Callable[[Random], int]:
    most = 1 << bits - 1
    return lambda random: random.choice((random.randrange(-most, most), -1, 0, most - 1))


def _text(random: Random) -> str:
    return random.choice("aé🦆") * random.choice((0, 1, 2, 5, 31, 125, 126, 127, 128, 8_000))


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 126, 127, 128, 20_000)))


def _milliseconds(most: int) -> Callable[[Random], datetime.timedelta]:
    return lambda random: random.randrange(most) * _MILLISECOND


_SCALARS: Final[dict[str, Callable[[Random], Any]]] = {
    "bool": lambda random: random.random() < 0.5,
    "int8": _number(8),
    "int16": _number(16),
    "int32": _number(32),
    "int64": _number(64),
    "string": _text,
    "bytes": _bytes,
    "records": _bytes,
    "uuid": lambda random: UUID(bytes=random.randbytes(16)),
    "error_code": lambda random: random.choice([*ErrorCode]),
    "timedelta_i32": _milliseconds(2**31),
    "timedelta_i64": _milliseconds(2**46),
    "datetime_i64": lambda random: _EPOCH + _milliseconds(2**42)(random),
}
