"""Messages as kio has them: another reading of Kafka's definitions, which judges ours."""

from __future__ import annotations

import datetime
import io
import types
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Union, get_args, get_origin

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64Timedelta

from aioproducer.engine.network.frames import Decoded, EncodedPayload, decode_response
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors.broker import ErrorCode


@cache
def request_module(api: Api, version: int) -> ModuleType:
    """kio's module with the request and its parts."""
    return import_module(f"kio.schema.{api.name.lower()}.v{version}.request")


@cache
def response_module(api: Api, version: int) -> ModuleType:
    """kio's module with the response and its parts."""
    return import_module(f"kio.schema.{api.name.lower()}.v{version}.response")


def response_type(api: Api, version: int) -> Any:
    """kio's class of the response."""
    name = "".join(word.capitalize() for word in api.name.split("_"))
    return getattr(response_module(api, version), f"{name}Response")


def encode(entity: Any) -> bytes:
    """The bytes of one of kio's entities."""
    wire = io.BytesIO()
    entity_writer(type(entity))(wire, entity)
    return wire.getvalue()


def response_bytes(entity: Any, correlation_id: int = 1) -> bytes:
    """A response with its header."""
    header = type(entity).__header_schema__(correlation_id=i32(correlation_id))
    return encode(header) + encode(entity)


def ours(entity: Any) -> Any:
    """The message that our decoder makes of kio's response."""
    response, left_over = decode(type(entity), response_bytes(entity))
    assert not left_over
    return response


def decode(kind: Any, body: bytes) -> Decoded:
    """The response that our decoder makes of bytes; ``kind``: kio's class of it."""
    return decode_response(api_of(kind), version_of(kind), body)


def api_of(kind: Any) -> Api:
    """The API of one of kio's classes."""
    return Api(int(kind.__api_key__))


def version_of(kind: Any) -> int:
    """The version of one of kio's classes."""
    return int(kind.__version__)


def judged(api: Api) -> range:
    """The versions that are spoken here and that kio has, too."""
    lowest, highest = SUPPORTED[api]
    module = f"kio.schema.{api.name.lower()}"
    while highest > lowest and find_spec(f"{module}.v{highest}") is None:
        highest -= 1  # Kafka's own classes alone judge the newest
    return range(lowest, highest + 1)


def theirs(payload: EncodedPayload) -> Any:
    """kio's entity of a request that our encoder wrote."""
    kind = _request_type(payload.api, payload.version)
    data = b"".join(payload.parts)
    entity, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    assert encode(entity) == data
    return entity


def _request_type(api: Api, version: int) -> Any:
    name = "".join(word.capitalize() for word in api.name.split("_"))
    return getattr(request_module(api, version), f"{name}Request")


def milliseconds(number: int) -> i32Timedelta:
    """kio's type of most times."""
    return i32Timedelta.parse(datetime.timedelta(milliseconds=number))


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
