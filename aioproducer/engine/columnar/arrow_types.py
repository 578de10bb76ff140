"""The types of Arrow as the encoders see them."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from aioproducer.engine.records.arrow import imported_pyarrow


class Kind(Enum):
    """The kinds of columns that have a form in the formats."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    TEXT = "text"
    BINARY = "binary"
    FIXED = "fixed"
    UUID = "uuid"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"
    OTHER = "other"


UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""The parts of a second."""


def plain_type(kind: Any) -> Any:
    """The type of the values: without a dictionary, run ends, an extension or views."""
    arrow = imported_pyarrow()
    types = arrow.types
    while True:
        if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, arrow.BaseExtensionType):
            kind = kind.storage_type
        else:
            break
    if types.is_string_view(kind):
        return arrow.string()
    if types.is_binary_view(kind):
        return arrow.binary()
    if types.is_float16(kind):
        return arrow.float32()
    return kind


def kind_of(kind: Any) -> Kind:
    """The kind of an Arrow type; ``Kind.OTHER`` has no form in any format."""
    types = imported_pyarrow().types
    if getattr(kind, "extension_name", None) == "arrow.uuid":
        return Kind.UUID
    kind = plain_type(kind)
    for found, is_found in (
        (Kind.NULL, types.is_null),
        (Kind.BOOLEAN, types.is_boolean),
        (Kind.INTEGER, types.is_integer),
        (Kind.FLOAT, types.is_float32),
        (Kind.DOUBLE, types.is_float64),
        (Kind.TEXT, lambda each: types.is_string(each) or types.is_large_string(each)),
        (Kind.BINARY, lambda each: types.is_binary(each) or types.is_large_binary(each)),
        (Kind.FIXED, types.is_fixed_size_binary),
        (Kind.DECIMAL, types.is_decimal),
        (Kind.DATE, types.is_date),
        (Kind.TIME, types.is_time),
        (Kind.TIMESTAMP, types.is_timestamp),
        (Kind.STRUCT, types.is_struct),
        (Kind.MAP, types.is_map),
        (Kind.LIST, _is_list),
    ):
        if is_found(kind):
            return found
    return Kind.OTHER


def _is_list(kind: Any) -> bool:
    types = imported_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def integer_range(kind: Any) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    types = imported_pyarrow().types
    bits = kind.bit_width
    if types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def ticks(kind: Any) -> int:
    """The parts of a second that a time or a timestamp counts."""
    return UNITS[kind.unit]


def duplicate_names(kind: Any) -> list[str]:
    """The names that more than one member of a struct has."""
    names = [field.name for field in kind]
    return sorted({name for name in names if names.count(name) > 1})
