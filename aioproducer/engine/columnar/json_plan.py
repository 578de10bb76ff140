"""The forms of columns in JSON: those of Spark's ``to_json``, and all digits of a timestamp."""

from __future__ import annotations

import json
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import (
    Kind,
    duplicate_names,
    kind_of,
    plain_type,
    ticks,
)
from aioproducer.engine.columnar.plan import Node, Write
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import ColumnError

_NULL: Final = b"null"
_WRITES: Final = {
    Kind.BOOLEAN: Write.BOOLEAN,
    Kind.INTEGER: Write.INTEGER,
    Kind.FLOAT: Write.FLOAT,
    Kind.DOUBLE: Write.DOUBLE,
    Kind.TEXT: Write.TEXT,
    Kind.BINARY: Write.BINARY,
    Kind.FIXED: Write.BINARY,
    Kind.UUID: Write.UUID,
    Kind.DECIMAL: Write.DECIMAL,
    Kind.DATE: Write.DATE,
    Kind.TIME: Write.TIME,
    Kind.TIMESTAMP: Write.TIMESTAMP,
}


def json_plan(
    kind: Any, path: str, name: str = "", before: bytes = b"", null: bytes | None = _NULL
) -> Node:
    """The plan for a column of the Arrow type ``kind``. Raises ColumnError if JSON has no form."""
    found, kind = kind_of(kind), plain_type(kind)
    if found is Kind.NULL and null is not None:
        return Node(Write.CONSTANT, path, name, before=null)
    if found is Kind.STRUCT:
        return Node(
            Write.RECORD, path, name, children=_members(kind, path), before=before, null=null
        )
    if found is Kind.LIST:
        items = (json_plan(kind.value_type, f"{path}[]"),)
        return Node(Write.ARRAY, path, name, children=items, before=before, null=null)
    if found is Kind.MAP:
        check_text_keys(kind, path)
        key = Node(Write.TEXT, f"{path}.key", storage=plain_type(kind.key_type))
        pair = key, json_plan(kind.item_type, f"{path}.value")
        return Node(Write.MAP, path, name, children=pair, before=before, null=null)
    write = _WRITES.get(found)
    if write is None:
        raise ColumnError(f"the column {path!r} is of type {kind}, which JSON can't represent")
    divide, width = 1, 0
    if found is Kind.DATE:
        divide = 1 if kind == imported_pyarrow().date32() else 86_400_000
    elif found in (Kind.TIME, Kind.TIMESTAMP):
        divide = ticks(kind)
        width = int(found is Kind.TIMESTAMP and kind.tz is not None)
    elif found is Kind.DECIMAL:
        width, kind = kind.scale, wide_decimal(kind)
    return Node(write, path, name, kind, before=before, null=null, divide=divide, width=width)


def _members(kind: Any, path: str) -> tuple[Node, ...]:
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    return tuple(
        json_plan(each.type, f"{path}.{each.name}", each.name, _member_name(each.name), b"")
        for each in kind
    )


def _member_name(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode() + b":"


def check_text_keys(kind: Any, path: str) -> None:
    """Raises ColumnError if the keys of a map are not text."""
    if kind_of(kind.key_type) is not Kind.TEXT:
        raise ColumnError(
            f"the column {path!r} is of type {kind}; names in JSON are strings: cast the keys"
        )


def wide_decimal(kind: Any) -> Any:
    """A decimal of at least 128 bits with the same digits."""
    arrow = imported_pyarrow()
    if kind.bit_width >= 128:
        return kind
    return arrow.decimal128(kind.precision, kind.scale)


def derived_json_type(kind: Any, path: str) -> dict[str, Any]:
    """The JSON Schema of values that are not null. Raises ColumnError if JSON has no form."""
    found, kind = kind_of(kind), plain_type(kind)
    if found is Kind.STRUCT:
        return _object(kind, path)
    if found is Kind.LIST:
        item = kind.value_field
        items = _nullable(derived_json_type(item.type, f"{path}[]"), item.nullable)
        sizes = {}
        if imported_pyarrow().types.is_fixed_size_list(kind):
            sizes = {"minItems": kind.list_size, "maxItems": kind.list_size}
        return {"type": "array", "items": items, **sizes}
    if found is Kind.MAP:
        check_text_keys(kind, path)
        item = kind.item_field
        values = _nullable(derived_json_type(item.type, f"{path}.value"), item.nullable)
        return {"type": "object", "additionalProperties": values}
    if found is Kind.TIMESTAMP and kind.tz is not None:
        return {"type": "string", "format": "date-time"}
    if found not in _TYPES:
        raise ColumnError(f"the column {path!r} is of type {kind}, which JSON can't represent")
    return dict(_TYPES[found])


_TYPES: Final[dict[Kind, dict[str, Any]]] = {
    Kind.NULL: {"type": "null"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.INTEGER: {"type": "integer"},
    Kind.FLOAT: {"type": "number"},
    Kind.DOUBLE: {"type": "number"},
    Kind.DECIMAL: {"type": "number"},
    Kind.TEXT: {"type": "string"},
    Kind.BINARY: {"type": "string", "contentEncoding": "base64"},
    Kind.FIXED: {"type": "string", "contentEncoding": "base64"},
    Kind.UUID: {"type": "string", "format": "uuid"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIME: {"type": "string"},
    Kind.TIMESTAMP: {"type": "string"},
}
"""The formats ``time`` and ``date-time`` of JSON Schema want a time zone."""


def _object(kind: Any, path: str) -> dict[str, Any]:
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    properties = {
        each.name: _nullable(derived_json_type(each.type, f"{path}.{each.name}"), each.nullable)
        for each in kind
    }
    null = {"type": "null"}
    required = [each.name for each in kind if not each.nullable and properties[each.name] != null]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _nullable(schema: dict[str, Any], nullable: bool) -> dict[str, Any]:
    null = {"type": "null"}
    return {"oneOf": [null, schema]} if nullable and schema != null else schema
