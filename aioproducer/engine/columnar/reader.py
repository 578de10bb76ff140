"""The values of a column's rows, as the references of the encoders read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import Kind, kind_of
from aioproducer.engine.columnar.layout import Layout
from aioproducer.engine.columnar.plan import Node, Write
from aioproducer.engine.columnar.problems import Problem, ValueProblemError, problem
from aioproducer.engine.records.arrow_output import imported_pyarrow


class Column:
    """A column as Python values: numbers as they are stored, bytes, or the places of items.

    ``value(row)`` of a list or a map is the first place of its items in ``children``, and the place
    after the last one; of a struct it is True.
    """

    def __init__(self, layout: Layout) -> None:
        self.node: Final[Node] = layout.node
        self.children: Final = tuple(Column(each) for each in layout.children)
        self._values: Final = _values(layout)

    def value(self, row: int) -> Any:
        """The value of a row, None for null."""
        return self._values[row]


def encoded_rows(
    layout: Layout, rows: int, prefix: bytes, encoded: Callable[[Column, int], bytes]
) -> Any:
    """A binary array of what ``encoded`` gives for each row, ``prefix`` before it.

    A row that is null stays null. Raises SerializationError, which names the row.
    """
    arrow = imported_pyarrow()
    column = Column(layout)
    records: list[bytes | None] = []
    for row in range(rows):
        if layout.array is not None and column.value(row) is None:
            records.append(None)
            continue
        try:
            records.append(prefix + encoded(column, row))
        except ValueProblemError as found:
            raise problem(found.reason, found.node, row) from None
    short = sum(len(each or b"") for each in records) < 2**31
    return arrow.array(records, arrow.binary() if short else arrow.large_binary())


def _values(layout: Layout) -> Sequence[Any]:
    node, array = layout.node, layout.array
    if array is None:
        return ()
    if node.storage is not None:
        read = _READ.get(kind_of(node.storage))
        return read(array) if read else list(array.to_pylist())
    valid = array.is_valid().to_pylist()
    if node.write is Write.RECORD:
        return [each or None for each in valid]
    ends = _ends(array)
    return [ends[row] if is_valid else None for row, is_valid in enumerate(valid)]


def _ends(array: Any) -> list[tuple[int, int]]:
    types = imported_pyarrow().types
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        places = range(array.offset, array.offset + len(array))
        return [(place * size, (place + 1) * size) for place in places]
    offsets = array.offsets.to_pylist()
    return list(pairwise(offsets))


def _integers(array: Any) -> list[int | None]:
    """Dates, times and timestamps as their numbers."""
    arrow = imported_pyarrow()
    wide = arrow.int64() if array.type.bit_width == 64 else arrow.int32()
    numbers: list[int | None] = array.view(wide).to_pylist()
    return numbers


def _unscaled(array: Any) -> list[int | None]:
    with localcontext() as context:
        context.prec = 100
        return [None if each is None else _unscaled_number(each) for each in array.to_pylist()]


def _unscaled_number(number: Decimal) -> int:
    sign, digits, _ = number.as_tuple()
    unscaled = int("".join(map(str, digits)))
    return -unscaled if sign else unscaled


def _texts(array: Any) -> list[bytes | None]:
    """The bytes of texts: whether they are UTF-8 is seen where they are written."""
    arrow = imported_pyarrow()
    large = arrow.types.is_large_string(array.type)
    texts: list[bytes | None] = array.cast(
        arrow.large_binary() if large else arrow.binary()
    ).to_pylist()
    return texts


_READ: Final[dict[Kind, Callable[[Any], Sequence[Any]]]] = {
    Kind.DATE: _integers,
    Kind.TIME: _integers,
    Kind.TIMESTAMP: _integers,
    Kind.DECIMAL: _unscaled,
    Kind.TEXT: _texts,
}


def scaled(node: Node, number: int) -> int:
    """An integer in the unit of the output. Raises ValueProblemError if it has none."""
    number, rest = divmod(number * node.multiply, node.divide)
    if rest:
        raise ValueProblemError(Problem.INEXACT, node)
    if not -(2**63) <= number < 2**63:
        raise ValueProblemError(Problem.RANGE, node)
    return number


def utf8(node: Node, text: bytes) -> bytes:
    """``text`` if it is UTF-8, else ValueProblemError."""
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ValueProblemError(Problem.UTF8, node) from None
    return text
