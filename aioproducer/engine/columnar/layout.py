"""A plan joined with the arrays of one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.engine.columnar.arrow_types import Kind, kind_of
from aioproducer.engine.columnar.plan import Node, Write
from aioproducer.engine.columnar.problems import Problem, problem
from aioproducer.engine.records.arrow_output import imported_pyarrow
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
