"""Rows as messages of Protocol Buffers: the reference.

``_speedups.pyx`` is the compiled form, and :mod:`encoder` chooses between them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from aioproducer.engine.columnar.json_rows import decimal_text
from aioproducer.engine.columnar.layout import Column, Layout, checked_utf8, encoded_rows, scaled
from aioproducer.engine.columnar.plan import Node, Problem, ValueProblemError, Write
from aioproducer.engine.columnar.protobuf_plan import WireType, sized, tag, varint

_FIRST_SECOND: Final = -62_135_596_800
"""The year 1; ``google.protobuf.Timestamp`` begins there."""
_END: Final = 253_402_300_800
"""The year 10000."""
_SECONDS: Final = tag(1, WireType.VARINT)
_NANOS: Final = tag(2, WireType.VARINT)


def protobuf_rows(layout: Layout, rows: int, prefix: bytes) -> Any:
    """One message a row, ``prefix`` before each; a row that is null stays null."""
    return encoded_rows(layout, rows, prefix, _members)


def _members(column: Column, row: int) -> bytes:
    return b"".join([_encoded(each, row) for each in column.children])


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
        return node.before + sized(_members(column, row))
    if node.write is Write.MAP:
        entries = [sized(_members(column, place)) for place in range(*value)]
        return b"".join([node.before + each for each in entries])
    if node.write in (Write.ARRAY, Write.PACKED):
        items = b"".join([_members(column, place) for place in range(*value)])
        if node.write is Write.ARRAY or not items:
            return items
        return node.before + sized(items)
    written = _WRITES[node.write](node, value)
    if node.leaves_out_default and not any(written):
        return b""
    return node.before + written


def _boolean(node: Node, value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _integer(node: Node, value: int) -> bytes:
    return varint(scaled(node, value) if node.multiply * node.divide > 1 else value)


def _zigzag(node: Node, value: int) -> bytes:
    return varint(value << 1 ^ value >> 63)


def _fixed_32(node: Node, value: int) -> bytes:
    return struct.pack("<I", value & 0xFFFF_FFFF)


def _fixed_64(node: Node, value: int) -> bytes:
    return struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)


def _float(node: Node, value: float) -> bytes:
    return struct.pack("<f", value)


def _double(node: Node, value: float) -> bytes:
    return struct.pack("<d", value)


def _binary(node: Node, value: bytes) -> bytes:
    return sized(value)


def _text(node: Node, value: bytes) -> bytes:
    return sized(checked_utf8(node, value))


def _uuid(node: Node, value: bytes) -> bytes:
    return sized(str(UUID(bytes=value)).encode())


def _enum(node: Node, value: bytes) -> bytes:
    for name, number in zip(node.symbols[::2], node.symbols[1::2], strict=True):
        if name == value:
            return number
    raise ValueProblemError(Problem.SYMBOL, node)


def _decimal(node: Node, value: int) -> bytes:
    return sized(decimal_text(node, value))


def _timestamp(node: Node, value: int) -> bytes:
    seconds, fraction = divmod(value, node.divide)
    if not _FIRST_SECOND <= seconds < _END:
        raise ValueProblemError(Problem.RANGE, node)
    nanos = fraction * (1_000_000_000 // node.divide)
    return sized(
        (_SECONDS + varint(seconds) if seconds else b"")
        + (_NANOS + varint(nanos) if nanos else b"")
    )


_WRITES: Final[dict[Write, Callable[[Node, Any], bytes]]] = {
    Write.BOOLEAN: _boolean,
    Write.INTEGER: _integer,
    Write.ZIGZAG: _zigzag,
    Write.FIXED_32: _fixed_32,
    Write.FIXED_64: _fixed_64,
    Write.FLOAT: _float,
    Write.DOUBLE: _double,
    Write.BINARY: _binary,
    Write.TEXT: _text,
    Write.UUID: _uuid,
    Write.ENUM: _enum,
    Write.DECIMAL: _decimal,
    Write.TIMESTAMP: _timestamp,
}
