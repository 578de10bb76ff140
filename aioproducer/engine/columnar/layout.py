"""A plan joined with the arrays of one batch, and the values of its rows.

The compiled encoders take a :class:`Layout`; their references read a :class:`Column`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import Kind, kind_of
from aioproducer.engine.columnar.plan import Node, Problem, ValueProblemError, Write, problem
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import SerializationError


@dataclass(frozen=True, slots=True)
class Layout:
    """A node with its array: for a leaf of exactly ``node.storage``, without a dictionary."""

    node: Node
    array: Any
    """None if the node reads no column."""
    children: tuple[Layout, ...] = ()


def laid_out(node: Node, array: Any, *, is_row: bool = True) -> Layout:
    """The arrays that ``node`` reads, from those of one batch.

    The array's types may be others than those of the plan, if their values are the same: text with
    64-bit offsets, a dictionary of values. Raises SerializationError for other types. ``is_row`` is
    False inside of lists and maps, where an item's number is not that of its row.
    """
    if node.write is Write.CONSTANT:
        return Layout(node, None)
    array = _plain(array)
    types = imported_pyarrow().types
    if node.storage is not None:
        return Layout(node, _stored(node, array, is_row))
    fits = {Write.RECORD: types.is_struct, Write.MAP: types.is_map}.get(node.write, _is_list)
    if not fits(array.type):
        raise _other_type(node, array)
    if node.write is Write.RECORD:
        children = tuple(
            laid_out(each, _member(each, array), is_row=is_row) for each in node.children
        )
    elif node.write is Write.MAP:
        pairs = array.values
        key, item = node.children
        children = (
            laid_out(key, pairs.field(0), is_row=False),
            laid_out(item, pairs.field(1), is_row=False),
        )
    else:
        children = (laid_out(node.children[0], array.values, is_row=False),)
    return Layout(node, array, children)


def _plain(array: Any) -> Any:
    """The array without a dictionary, run ends or an extension.

    Arrow's decoder believes run ends, so they are checked; it checks indexes itself.
    """
    arrow = imported_pyarrow()
    while True:
        kind = array.type
        if isinstance(kind, arrow.BaseExtensionType):
            array = array.storage
        elif arrow.types.is_dictionary(kind):
            array = _decoded(array)
        elif arrow.types.is_run_end_encoded(kind):
            import pyarrow.compute

            array.validate(full=True)
            array = pyarrow.compute.run_end_decode(array)
        else:
            return array


def _decoded(array: Any) -> Any:
    """The values of a dictionary's indexes.

    Arrow's builders put the index 0 below a null struct, into a dictionary that may be empty.
    """
    if len(array.dictionary):
        return array.dictionary_decode()
    return imported_pyarrow().nulls(len(array), array.type.value_type)


def _member(node: Node, array: Any) -> Any:
    """A member of a struct. It is null where the struct is, so that no cast sees what is there."""
    if node.write is Write.CONSTANT:
        return None
    number = array.type.get_field_index(node.name)
    if number < 0:
        raise _other_type(node, array)
    is_cast = node.write is Write.DECIMAL and array.null_count
    return array.flatten()[number] if is_cast else array.field(number)


def _stored(node: Node, array: Any, is_row: bool) -> Any:
    if array.type == node.storage:
        return array
    given, wanted = kind_of(array.type), kind_of(node.storage)
    if given is not wanted and (given, wanted) != (Kind.FLOAT, Kind.DOUBLE):
        raise _other_type(node, array)
    arrow = imported_pyarrow()
    if arrow.types.is_string_view(array.type) or arrow.types.is_binary_view(array.type):
        array.validate(full=True)  # Arrow's cast reads wherever a view points to
    try:
        return array.cast(node.storage)
    except arrow.ArrowException as error:
        if given is not Kind.DECIMAL or not isinstance(error, arrow.ArrowInvalid):
            raise _other_type(node, array) from error
    raise problem(Problem.DECIMAL, node, _first_refused(node, array) if is_row else None)


def _first_refused(node: Node, array: Any) -> int:
    """The row of the first decimal that the cast refuses."""
    arrow = imported_pyarrow()
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(node.storage)
        except arrow.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _is_list(kind: Any) -> bool:
    types = imported_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _other_type(node: Node, array: Any) -> SerializationError:
    return SerializationError(
        f"the column {node.path!r} is of type {array.type}; the encoder was made for another one"
        + (f", {node.storage}" if node.storage is not None else "")
    )


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


def checked_utf8(node: Node, text: bytes) -> bytes:
    """``text`` if it is UTF-8, else ValueProblemError."""
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ValueProblemError(Problem.UTF8, node) from None
    return text
