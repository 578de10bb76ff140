"""Requests from bytes and responses to bytes, by the message definitions of kio.

A handler reads the attributes of a request, and returns the fields of its response as a mapping.
Times are milliseconds and error codes are numbers, so a response needs no types of kio's. The
mapping may name fields that only other versions of the response have; a field that no version has
is an error.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

Fields: TypeAlias = Mapping[str, Any]

SIZE_BYTES: Final = 4
THROTTLE: Final = "throttle_time"
_NUMBERS: Final = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
_CLASS_VARIABLES: Final = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)


class UnreadableRequestError(ValueError):
    """The bytes are no request that this model answers; a broker closes the connection."""


class Request(NamedTuple):
    """A request of a client."""

    api: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    """Attributes as in kio's class; times in milliseconds, error codes as numbers."""


def header_of(frame: bytes) -> tuple[int, int, int]:
    """The API key, the version and the correlation id of the request in ``frame``."""
    if len(frame) < 8:
        raise UnreadableRequestError(f"a request of {len(frame)} bytes has no header")
    return (
        int.from_bytes(frame[0:2], "big", signed=True),
        int.from_bytes(frame[2:4], "big", signed=True),
        int.from_bytes(frame[4:8], "big", signed=True),
    )


def read_request(frame: bytes) -> Request:
    """The request in ``frame``, without the size in front. Raises UnreadableRequestError."""
    api, version, correlation_id = header_of(frame)
    try:
        kind = load_request_schema(api, version)
        header, used = entity_reader(kind.__header_schema__)(frame, 0)
        body, _ = entity_reader(plain(kind))(frame, used)
    except Exception as error:
        raise UnreadableRequestError(f"request {api} of version {version}: {error!r}") from error
    return Request(api, version, correlation_id, header.client_id, body)


def write_response(
    api: int, version: int, correlation_id: int, values: Fields, *, throttle_ms: int = 0
) -> bytes:
    """The frame of a response, its size in front."""
    kind = load_response_schema(api, version)
    if THROTTLE in _names_of_other_versions(kind):
        values = {THROTTLE: throttle_ms, **values}
    output = io.BytesIO()
    output.write(bytes(SIZE_BYTES))
    header: Any = kind.__header_schema__
    entity_writer(header)(output, header(correlation_id=correlation_id))
    entity_writer(plain(kind))(output, _builder(kind)(values))
    frame = output.getbuffer()
    frame[:SIZE_BYTES] = (len(frame) - SIZE_BYTES).to_bytes(SIZE_BYTES, "big")
    return bytes(frame)


def write_request(
    api: int, version: int, correlation_id: int, client_id: str, values: Fields
) -> bytes:
    """The frame of a request, its size in front: the counterpart for scripted conversations."""
    kind = load_request_schema(api, version)
    output = io.BytesIO()
    header: Any = kind.__header_schema__
    names = {each.name for each in fields(header)}
    known = {
        "request_api_key": api,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    entity_writer(header)(output, header(**{name: known[name] for name in names}))
    entity_writer(plain(kind))(output, _builder(kind)(values))
    frame = output.getvalue()
    return len(frame).to_bytes(SIZE_BYTES, "big") + frame


def read_response(api: int, version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the body of the response in ``frame``, without the size in front."""
    kind = load_response_schema(api, version)
    header, used = entity_reader(kind.__header_schema__)(frame, 0)
    body, _ = entity_reader(plain(kind))(frame, used)
    return int(header.correlation_id), body


# --- kio's classes with numbers in place of its own types --------------------------------------


@cache
def plain(kind: Any) -> Any:
    """A class like ``kind``, one of kio's, whose times and error codes are numbers."""
    return make_dataclass(
        kind.__name__,
        [(each.name, *_plain_field(each)) for each in fields(kind)],
        namespace={name: getattr(kind, name) for name in _CLASS_VARIABLES if hasattr(kind, name)},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _plain(kind: Any) -> Any:
    return plain(kind)


def _plain_field(each: Any) -> tuple[Any, Any]:
    declared: Any = each.type
    metadata = dict(each.metadata)
    if metadata.get("kafka_type") in _NUMBERS:
        declared, metadata["kafka_type"] = int, _NUMBERS[metadata["kafka_type"]]
    else:
        declared = _plain_type(declared)
    if each.default is MISSING:
        return declared, field(metadata=metadata)
    return declared, field(metadata=metadata, default=_plain_value(each))


def _plain_type(declared: Any) -> Any:
    if is_dataclass(declared):
        return _plain(declared)
    arguments = get_args(declared)
    if get_origin(declared) is tuple and is_dataclass(arguments[0]):
        return GenericAlias(tuple, (_plain(arguments[0]), ...))
    if get_origin(declared) in (Union, UnionType):
        [inner] = [each for each in arguments if each is not NoneType]
        return _plain_type(inner) | None
    return declared


def _plain_value(each: Any) -> Any:
    """The default of a field."""
    default = each.default
    if is_dataclass(default):
        return _plain(type(default))(
            **{inner.name: _plain_value_of(default, inner) for inner in fields(default)}
        )
    if each.metadata.get("kafka_type") in _NUMBERS:
        return _number(default)
    return default


def _plain_value_of(entity: Any, each: Any) -> Any:
    value = getattr(entity, each.name)
    return _number(value) if each.metadata.get("kafka_type") in _NUMBERS else value


def _number(value: Any) -> int:
    if value is None:
        return -1
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    return int(value)


# --- mappings to kio's classes -----------------------------------------------------------------

_Builder: TypeAlias = Callable[[Fields], Any]


@cache
def _builder(kind: Any) -> _Builder:
    """Makes an entity of the class ``plain(kind)`` from the fields of a mapping."""
    made = plain(kind)
    nested: dict[str, _Builder] = {}
    lists: dict[str, _Builder] = {}
    for each in fields(kind):
        declared = each.type
        if get_origin(declared) in (Union, UnionType):
            [declared] = [inner for inner in get_args(declared) if inner is not NoneType]
        if is_dataclass(declared):
            nested[each.name] = _builder_of(declared)
        elif get_origin(declared) is tuple and is_dataclass(get_args(declared)[0]):
            lists[each.name] = _builder(get_args(declared)[0])
    names = frozenset(each.name for each in fields(kind))
    others = _names_of_other_versions(kind)

    def build(values: Fields) -> Any:
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if name not in names:
                if name not in others:
                    raise TypeError(f"no version of {kind.__name__} has a field {name!r}")
            elif value is None:
                arguments[name] = None
            elif (inner := lists.get(name)) is not None:
                arguments[name] = tuple([inner(each) for each in value])
            elif (inner := nested.get(name)) is not None:
                arguments[name] = inner(value)
            elif isinstance(value, list):
                arguments[name] = tuple(value)
            else:
                arguments[name] = value
        return made(**arguments)

    return build


def _builder_of(kind: Any) -> _Builder:
    return _builder(kind)


@cache
def _names_of_other_versions(kind: Any) -> frozenset[str]:
    """The fields of the classes that have the same name in other versions."""
    request = kind.__module__.endswith("request")
    versions: Sequence[int] = tuple(schema_name_map[api_key_map[kind.__api_key__]])
    names: set[str] = set()
    for version in versions:
        kinds = (
            load_payload_module(kind.__api_key__, version, EntityType.request)
            if request
            else load_payload_module(kind.__api_key__, version, EntityType.response)
        )
        other = getattr(kinds, kind.__name__, None)
        if other is not None:
            names.update(each.name for each in fields(other))
    return frozenset(names)
