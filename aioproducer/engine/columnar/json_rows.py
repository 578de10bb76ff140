"""Rows in JSON: the reference.

``_speedups.pyx`` is the compiled form, and :mod:`encoder` chooses between the two.
Source: RFC 8259; the forms of dates and times are those of ISO 8601.
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import date
from typing import Any, Final
from uuid import UUID

from aioproducer.engine.columnar.layout import Column, Layout, checked_utf8, encoded_rows, scaled
from aioproducer.engine.columnar.plan import Node, Problem, ValueProblemError, Write

_SECONDS_OF_A_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()


def json_rows(layout: Layout, rows: int, prefix: bytes) -> Any:
    """One record a row, ``prefix`` before each; a row that is null stays null."""
    return encoded_rows(layout, rows, prefix, _encoded)


def _encoded(column: Column, row: int) -> bytes:
    node = column.node
    if node.write is Write.CONSTANT:
        return node.before
    value = column.value(row)
    if value is None:
        if node.null is None:
            raise ValueProblemError(Problem.NULL, node)
        return node.null
    return node.before + _written(column, value, row)


def _written(column: Column, value: Any, row: int) -> bytes:
    node = column.node
    if node.write is Write.RECORD:
        members = [_encoded(each, row) for each in column.children]
        return b"{" + b",".join([each for each in members if each]) + b"}"
    if node.write is Write.ARRAY:
        (items,) = column.children
        return b"[" + b",".join([_encoded(items, place) for place in range(*value)]) + b"]"
    if node.write is Write.MAP:
        keys, items = column.children
        pairs = [_encoded(keys, each) + b":" + _encoded(items, each) for each in range(*value)]
        return b"{" + b",".join(pairs) + b"}"
    return _WRITES[node.write](node, value)


def _boolean(node: Node, value: bool) -> bytes:
    return b"true" if value else b"false"


def _integer(node: Node, value: int) -> bytes:
    return b"%d" % value


def _float(node: Node, value: float) -> bytes:
    """The fewest digits that are this float of 32 bits."""
    _check_finite(node, value)
    for digits in range(9):
        near = float(f"{value:.{digits}e}")
        if _single(near) == value:
            return repr(near).encode()
    raise AssertionError(value)


def _single(value: float) -> float:
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf
    return single


def _double(node: Node, value: float) -> bytes:
    _check_finite(node, value)
    return repr(float(value)).encode()


def _check_finite(node: Node, value: float) -> None:
    if not math.isfinite(value):
        raise ValueProblemError(Problem.NOT_FINITE, node)


def _text(node: Node, value: bytes) -> bytes:
    return json.dumps(checked_utf8(node, value).decode(), ensure_ascii=False).encode()


def _binary(node: Node, value: bytes) -> bytes:
    return b'"' + b64encode(value) + b'"'


def _uuid(node: Node, value: bytes) -> bytes:
    return f'"{UUID(bytes=value)}"'.encode()


def decimal_text(node: Node, value: int) -> bytes:
    """An unscaled number with the point where ``node.width`` says."""
    digits, scale = str(abs(value)), node.width
    if scale < 0 and value:
        digits += "0" * -scale
    elif scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"{'-' if value < 0 else ''}{digits}".encode()


def _date(node: Node, value: int) -> bytes:
    return f'"{_day(node, scaled(node, value))}"'.encode()


def _day(node: Node, days: int) -> str:
    try:
        return date.fromordinal(_EPOCH + days).isoformat()
    except (ValueError, OverflowError):
        raise ValueProblemError(Problem.RANGE, node) from None


def _time(node: Node, value: int) -> bytes:
    seconds, fraction = divmod(value, node.divide)
    if not 0 <= seconds < _SECONDS_OF_A_DAY:
        raise ValueProblemError(Problem.RANGE, node)
    return f'"{_clock(seconds)}{_fraction(node, fraction).rstrip("0")}"'.encode()


def _timestamp(node: Node, value: int) -> bytes:
    seconds, fraction = divmod(value, node.divide)
    days, seconds = divmod(seconds, _SECONDS_OF_A_DAY)
    text = f"{_day(node, days)}T{_clock(seconds)}{_fraction(node, fraction)}"
    return f'"{text}{"Z" if node.width else ""}"'.encode()


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def _fraction(node: Node, fraction: int) -> str:
    """None, three, six or nine digits, as Java's ``DateTimeFormatter.ISO_INSTANT`` has them."""
    if not fraction:
        return ""
    digits = f"{fraction * (1_000_000_000 // node.divide):09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


_WRITES: Final[dict[Write, Callable[[Node, Any], bytes]]] = {
    Write.BOOLEAN: _boolean,
    Write.INTEGER: _integer,
    Write.FLOAT: _float,
    Write.DOUBLE: _double,
    Write.TEXT: _text,
    Write.BINARY: _binary,
    Write.UUID: _uuid,
    Write.DECIMAL: decimal_text,
    Write.DATE: _date,
    Write.TIME: _time,
    Write.TIMESTAMP: _timestamp,
}
