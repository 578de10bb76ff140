"""Rows in Avro's binary encoding: the reference.

``_speedups.pyx`` is the compiled form, and :mod:`encoder` chooses between the two.
Source: the Avro specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from aioproducer.engine.columnar.avro_schema import sized
from aioproducer.engine.columnar.layout import Column, Layout, checked_utf8, encoded_rows, scaled
from aioproducer.engine.columnar.plan import Node, Problem, ValueProblemError, Write
from aioproducer.foundation.varint import encode_varint


def avro_rows(layout: Layout, rows: int, prefix: bytes) -> Any:
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
    if node.write is Write.RECORD:
        return node.before + b"".join([_encoded(each, row) for each in column.children])
    if node.write in (Write.ARRAY, Write.MAP):
        return node.before + _items(column, *value)
    return node.before + _WRITES[node.write](node, value)


def _items(column: Column, start: int, stop: int) -> bytes:
    if start == stop:
        return b"\0"
    items = [_encoded(each, place) for place in range(start, stop) for each in column.children]
    return encode_varint(stop - start) + b"".join(items) + b"\0"


def _boolean(node: Node, value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _integer(node: Node, value: int) -> bytes:
    return encode_varint(scaled(node, value))


def _float(node: Node, value: float) -> bytes:
    return struct.pack("<f", value)


def _double(node: Node, value: float) -> bytes:
    return struct.pack("<d", value)


def _binary(node: Node, value: bytes) -> bytes:
    return sized(value)


def _text(node: Node, value: bytes) -> bytes:
    return sized(checked_utf8(node, value))


def _fixed(node: Node, value: bytes) -> bytes:
    if len(value) != node.width:
        raise ValueProblemError(Problem.SIZE, node)
    return value


def _uuid(node: Node, value: bytes) -> bytes:
    return sized(str(UUID(bytes=value)).encode())


def _enum(node: Node, value: bytes) -> bytes:
    if value not in node.symbols:
        raise ValueProblemError(Problem.SYMBOL, node)
    return encode_varint(node.symbols.index(value))


def _decimal(node: Node, value: int) -> bytes:
    least = ((value if value >= 0 else ~value).bit_length() + 8) // 8
    if not node.width:
        return sized(value.to_bytes(least, "big", signed=True))
    if least > node.width:
        raise ValueProblemError(Problem.DECIMAL, node)
    return value.to_bytes(node.width, "big", signed=True)


_WRITES: Final[dict[Write, Callable[[Node, Any], bytes]]] = {
    Write.BOOLEAN: _boolean,
    Write.INTEGER: _integer,
    Write.FLOAT: _float,
    Write.DOUBLE: _double,
    Write.BINARY: _binary,
    Write.TEXT: _text,
    Write.FIXED: _fixed,
    Write.UUID: _uuid,
    Write.ENUM: _enum,
    Write.DECIMAL: _decimal,
}
