"""Looks at the array lengths of a response before it is decoded. No I/O.

kio's parser takes memory for as many elements as a length announces, before it reads the first one;
where that is more than there is, the whole process is aborted. So a few corrupt bytes must not get
that far: an array has at most as many elements as the response has bytes left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

from aioproducer.errors import ProtocolError

Skip: TypeAlias = Callable[[bytes, int], int]
"""Where a value that begins at an offset ends; may be behind the end of the bytes."""

_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


def check_array_lengths(kind: Any, body: bytes, offset: int) -> None:
    """Refuse a ``kind`` (a class of kio's) at ``offset`` whose arrays can't be in ``body``.

    Raises :class:`ProtocolError`. Whatever else is wrong is left to the decoder.
    """
    _entity(kind)(body, offset)


@cache
def _entity(kind: Any) -> Skip:
    flexible = bool(kind.__flexible__)
    steps: list[int | Skip] = []
    tagged: dict[int, Skip] = {}
    for field in fields(kind):
        step = _value(field.type, field.metadata.get("kafka_type"), flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = step if callable(step) else _leap(step)
        elif isinstance(step, int) and steps and isinstance(steps[-1], int):
            steps[-1] += step
        else:
            steps.append(step)

    def skip(body: bytes, offset: int) -> int:
        for step in steps:
            offset = offset + step if isinstance(step, int) else step(body, offset)
        return _skip_tagged(body, offset, tagged) if flexible else offset

    return skip


def _value(declared: Any, kafka_type: str | None, flexible: bool) -> int | Skip:
    """How to get over a value; a number of bytes where it is always the same."""
    if get_origin(declared) is tuple:
        return _array(_value(get_args(declared)[0], kafka_type, flexible), flexible)
    if get_origin(declared) in (Union, UnionType):
        inner = next(each for each in get_args(declared) if each is not NoneType)
        return _value(inner, kafka_type, flexible)
    if kafka_type is None:
        return _entity(declared)
    size = _SIZES.get(kafka_type)
    return _sized(kafka_type, flexible) if size is None else size


def _array(element: int | Skip, flexible: bool) -> Skip:
    def skip(body: bytes, offset: int) -> int:
        count, offset = _length(body, offset, flexible, 4)
        left = max(len(body) - offset, 0)
        if count > left:
            raise ProtocolError(
                f"an array of {count} elements is announced where {left} bytes are left"
            )
        if isinstance(element, int):
            return offset + max(count, 0) * element
        for _ in range(count):
            offset = element(body, offset)
        return offset

    return skip


def _sized(kafka_type: str, flexible: bool) -> Skip:
    width = 2 if kafka_type == "string" else 4

    def skip(body: bytes, offset: int) -> int:
        size, offset = _length(body, offset, flexible, width)
        return offset + max(size, 0)

    return skip


def _leap(size: int) -> Skip:
    return lambda body, offset: offset + size


def _length(body: bytes, offset: int, flexible: bool, width: int) -> tuple[int, int]:
    if flexible:
        length, offset = _unsigned_varint(body, offset)
        return length - 1, offset
    return int.from_bytes(body[offset : offset + width], "big", signed=True), offset + width


def _unsigned_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    for byte in body[offset : offset + 5]:
        offset += 1
        if byte < 0x80:
            return value | byte << shift, offset
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, offset


def _skip_tagged(body: bytes, offset: int, known: Mapping[int, Skip]) -> int:
    if body[offset : offset + 1] == b"\0":
        return offset + 1
    count, offset = _unsigned_varint(body, offset)
    for _ in range(count):
        if offset >= len(body):
            break
        tag, offset = _unsigned_varint(body, offset)
        size, offset = _unsigned_varint(body, offset)
        offset = known[tag](body, offset) if tag in known else offset + size
    return offset
