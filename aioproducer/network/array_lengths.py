"""Looks at the array lengths of a response before it is decoded. No I/O.

kio's parser takes memory for as many elements as a length announces, before it reads the first one;
where that is more than there is, the whole process is aborted. So a few corrupt bytes must not get
that far: an array has at most as many elements as the response has bytes left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

from aioproducer.errors import ProtocolError

Skip: TypeAlias = Callable[[bytes, int], int]
"""Where a value that begins at an offset ends; may be behind the end of the bytes.

Raises :class:`IndexError` where the bytes end too early to tell.
"""

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
    with suppress(IndexError):  # the bytes end too early, and there the decoder will end too
        _entity(kind)(body, offset)


@cache
def _entity(kind: Any) -> Skip:
    flexible = bool(kind.__flexible__)
    steps: list[tuple[int, Skip]] = []
    tagged: dict[int, Skip] = {}
    leap = 0
    for field in fields(kind):
        step = _value(field.type, field.metadata.get("kafka_type"), flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = step if callable(step) else _leap(step)
        elif isinstance(step, int):
            leap += step
        else:
            steps.append((leap, step))
            leap = 0

    def skip(body: bytes, offset: int) -> int:
        for before, step in steps:
            offset = step(body, offset + before)
        offset += leap
        if not flexible:
            return offset
        return _skip_tagged(body, offset, tagged) if body[offset] else offset + 1

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
    length = _compact_length if flexible else _length_of_4

    def skip(body: bytes, offset: int) -> int:
        count, offset = length(body, offset)
        if count <= 0:
            return offset
        left = max(len(body) - offset, 0)
        if count > left:
            raise ProtocolError(
                f"an array of {count} elements is announced where {left} bytes are left"
            )
        if isinstance(element, int):
            return offset + count * element
        for _ in range(count):
            offset = element(body, offset)
        return offset

    return skip


def _sized(kafka_type: str, flexible: bool) -> Skip:
    if flexible:
        length = _compact_length
    else:
        length = _length_of_2 if kafka_type == "string" else _length_of_4

    def skip(body: bytes, offset: int) -> int:
        size, offset = length(body, offset)
        return offset + size if size > 0 else offset

    return skip


def _leap(size: int) -> Skip:
    return lambda body, offset: offset + size


def _compact_length(body: bytes, offset: int) -> tuple[int, int]:
    first = body[offset]
    if first < 0x80:
        return first - 1, offset + 1
    length, offset = _unsigned_varint(body, offset)
    return length - 1, offset


def _length_of_2(body: bytes, offset: int) -> tuple[int, int]:
    return int.from_bytes(body[offset : offset + 2], "big", signed=True), offset + 2


def _length_of_4(body: bytes, offset: int) -> tuple[int, int]:
    return int.from_bytes(body[offset : offset + 4], "big", signed=True), offset + 4


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
    count, offset = _unsigned_varint(body, offset)
    for _ in range(count):
        if offset >= len(body):
            break
        tag, offset = _unsigned_varint(body, offset)
        size, offset = _unsigned_varint(body, offset)
        offset = known[tag](body, offset) if tag in known else offset + size
    return offset
