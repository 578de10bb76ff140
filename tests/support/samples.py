"""Messages of kio's with a value in every field."""

from __future__ import annotations

import datetime
import types
import uuid
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin

from kio.static.primitive import i32Timedelta, i64Timedelta

from aioproducer.errors.broker import ErrorCode

_VALUES: dict[str, Any] = {
    "bool": True,
    "int8": 0,
    "int16": 3,
    "uint16": 3,
    "int32": 1,
    "uint32": 1,
    "int64": 5,
    "float64": 0.5,
    "string": "orders",
    "bytes": b"some",
    "records": b"records",
    "uuid": uuid.UUID(int=5),
    "error_code": ErrorCode.NONE,
    "timedelta_i32": i32Timedelta.parse(datetime.timedelta(0)),
    "timedelta_i64": i64Timedelta.parse(datetime.timedelta(hours=1)),
    "datetime_i64": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
}


def sample(kind: Any, values: dict[str, Any] | None = None, *, entries: int = 1) -> Any:
    """A message of ``kind``; ``values`` by the fields' names, wherever they are.

    Arrays have ``entries`` elements.
    """
    known = values or {}
    given = {
        each.name: known[each.name] if each.name in known else _value(each, known, entries)
        for each in fields(kind)
    }
    return kind(**given)


def _value(each: Any, known: dict[str, Any], entries: int) -> Any:
    declared, kafka_type = each.type, each.metadata.get("kafka_type")
    if get_origin(declared) in (Union, types.UnionType):
        declared = next(one for one in get_args(declared) if one is not types.NoneType)
    if get_origin(declared) is tuple:
        inner = get_args(declared)[0]
        one = _VALUES[kafka_type] if kafka_type else sample(inner, known, entries=entries)
        return (one,) * entries
    if kafka_type is None and is_dataclass(declared):
        return sample(declared, known, entries=entries)
    return _VALUES[kafka_type]
