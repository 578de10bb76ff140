"""The plan of an encoder: the form of each column, decided once and carried to other processes.

A plan has no array in it. :mod:`layout` joins it with the arrays of a batch, for the encoders. A
:class:`Problem` is the reason for which a value does not fit its form.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from aioproducer.errors import SerializationError


class Write(IntEnum):
    """The form of a value in the output. Each format has some of them."""

    CONSTANT = 0
    """No column is read: ``Node.before`` is all."""
    BOOLEAN = 1
    INTEGER = 2
    """An integer times ``multiply``, divided by ``divide`` without a remainder."""
    FLOAT = 3
    DOUBLE = 4
    BINARY = 5
    """Bytes with their size before them."""
    TEXT = 6
    """Binary that must be UTF-8."""
    FIXED = 7
    """Bytes of the size ``width``."""
    UUID = 8
    """16 bytes as text."""
    ENUM = 9
    """Text as its place in ``symbols``."""
    DECIMAL = 10
    """In Avro the unscaled number, in ``width`` bytes if that is not 0. In JSON the number, with
    ``width`` digits after the point."""
    RECORD = 11
    ARRAY = 12
    MAP = 13
    DATE = 14
    """Text; the column has ``divide`` ticks a day."""
    TIME = 15
    """Text; the column has ``divide`` ticks a second."""
    TIMESTAMP = 16
    """Text, with a time zone if ``width`` is 1; in Protocol Buffers a message. The column has
    ``divide`` ticks a second."""
    ZIGZAG = 17
    """An integer with its sign in the lowest bit."""
    FIXED_32 = 18
    FIXED_64 = 19
    PACKED = 20
    """An array whose items have one tag."""


@dataclass(frozen=True, slots=True)
class Node:
    """A column, or a nested part of one, and its form in the output."""

    write: Write
    path: str
    """The place in errors, such as ``value.items[].price``."""
    name: str = ""
    """The name in the struct around it."""
    storage: Any = None
    """The Arrow type of a leaf when its buffers are read; None of the others."""
    children: tuple[Node, ...] = ()
    """The members of a struct in the order of the output; the item of an array; the key and the
    value of a map."""
    before: bytes = b""
    """Written before each value: in Avro the number of the union's branch."""
    null: bytes | None = None
    """Written for null. None: a null is an error."""
    multiply: int = 1
    divide: int = 1
    width: int = 0
    symbols: tuple[bytes, ...] = ()
    """Of an enum. In Protocol Buffers its number follows each."""
    leaves_out_default: bool = False
    """True if a value of only zero bytes is not written: a field without presence."""


class Problem(IntEnum):
    """The reason for an error at a value."""

    NULL = 1
    RANGE = 2
    INEXACT = 3
    SIZE = 4
    SYMBOL = 5
    UTF8 = 6
    DECIMAL = 7
    MALFORMED = 8
    NOT_FINITE = 9


_REASONS = {
    Problem.NULL: "is null, which the record can't have there",
    Problem.RANGE: "is out of the range of its type in the record",
    Problem.INEXACT: "is finer than the unit of the schema",
    Problem.SIZE: "does not have the size that the schema requires",
    Problem.SYMBOL: "is not one of the schema's symbols",
    Problem.UTF8: "is not UTF-8",
    Problem.DECIMAL: "has more digits than the schema allows",
    Problem.MALFORMED: "is malformed: its offsets are outside its data",
    Problem.NOT_FINITE: (
        "is infinite or not a number, which JSON does not have: cast it to a string"
    ),
}


def problem(reason: Problem, node: Node, row: int | None) -> SerializationError:
    """The error for the value of a row. None: the row is not known."""
    kind = f" (of type {node.storage})" if node.storage is not None else ""
    place = "a row" if row is None else f"row {row}"
    return SerializationError(f"{place}: {node.path!r}{kind} {_REASONS[reason]}")


class ValueProblemError(Exception):
    """A value has a problem; the encoder of rows adds the row."""

    def __init__(self, reason: Problem, node: Node) -> None:
        super().__init__(reason, node)
        self.reason = reason
        self.node = node
