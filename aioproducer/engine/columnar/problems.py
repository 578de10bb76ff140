"""The errors of values that the format or the schema does not take."""

from __future__ import annotations

from enum import IntEnum

from aioproducer.engine.columnar.plan import Node
from aioproducer.errors import SerializationError


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
    Problem.RANGE: "is out of the range of its form in the record",
    Problem.INEXACT: "is finer than the unit of the schema",
    Problem.SIZE: "has not the size that the schema wants",
    Problem.SYMBOL: "is none of the schema's symbols",
    Problem.UTF8: "is not UTF-8",
    Problem.DECIMAL: "has more digits than the schema takes",
    Problem.MALFORMED: "is malformed: its offsets lead out of its data",
    Problem.NOT_FINITE: "is infinite or not a number, which JSON does not have",
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
