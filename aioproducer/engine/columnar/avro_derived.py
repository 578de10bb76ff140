"""The Avro schema of an Arrow type, named as Spark's ``SchemaConverters`` name its own.

A nested record has the name of its field, in the namespace of the record around it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import (
    Kind,
    duplicate_names,
    integer_range,
    kind_of,
    plain_type,
    ticks,
)
from aioproducer.errors import ColumnError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNITS: Final = {1: "millis", 1_000: "millis", 1_000_000: "micros", 1_000_000_000: "nanos"}
_PLAIN: Final = {
    Kind.NULL: "null",
    Kind.BOOLEAN: "boolean",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.TEXT: "string",
    Kind.BINARY: "bytes",
}


def derived_avro_type(kind: Any, name: str, namespace: str, path: str) -> Any:
    """The schema of values that are not null. Raises ColumnError if Avro has none."""
    found, kind = kind_of(kind), plain_type(kind)
    if found in _PLAIN:
        return _PLAIN[found]
    if found is Kind.INTEGER:
        return _integer(kind, path)
    if found is Kind.STRUCT:
        return _record(kind, name, namespace, path)
    if found is Kind.LIST:
        item = kind.value_field
        inner = derived_avro_type(item.type, name, namespace, f"{path}[]")
        return {"type": "array", "items": _nullable(inner, item.nullable)}
    if found is Kind.MAP:
        if kind_of(kind.key_type) is not Kind.TEXT:
            raise ColumnError(
                f"the column {path!r} is of type {kind}; keys of Avro's maps are strings: cast them"
            )
        item = kind.item_field
        inner = derived_avro_type(item.type, name, namespace, f"{path}.value")
        return {"type": "map", "values": _nullable(inner, item.nullable)}
    if found is Kind.FIXED:
        return {"type": "fixed", **_named(name, namespace, path), "size": kind.byte_width}
    return _logical(found, kind, path)


def _logical(found: Kind, kind: Any, path: str) -> Any:
    if found is Kind.UUID:
        return {"type": "string", "logicalType": "uuid"}
    if found is Kind.DATE:
        return {"type": "int", "logicalType": "date"}
    if found is Kind.DECIMAL and 0 <= kind.scale <= kind.precision:
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if found is Kind.TIME and ticks(kind) <= 1_000:
        return {"type": "int", "logicalType": "time-millis"}
    if found is Kind.TIME:
        return {"type": "long", "logicalType": "time-micros"}
    if found is Kind.TIMESTAMP:
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[ticks(kind)]}"}
    raise ColumnError(
        f"the column {path!r} is of type {kind}; no Avro type has its values: cast it"
    )


def _integer(kind: Any, path: str) -> str:
    greatest = integer_range(kind)[1]
    if greatest >= 2**63:
        raise ColumnError(f"the column {path!r} is of type {kind}; Avro's long is signed: cast it")
    return "int" if greatest < 2**31 else "long"


def _record(kind: Any, name: str, namespace: str, path: str) -> Any:
    named = _named(name, namespace, path)
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    inside = f"{namespace}.{name}" if namespace else name
    return {"type": "record", **named, "fields": [_field(each, inside, path) for each in kind]}


def _field(field: Any, namespace: str, path: str) -> dict[str, Any]:
    path = f"{path}.{field.name}"
    _check_name(field.name, path)
    kind = derived_avro_type(field.type, field.name, namespace, path)
    if kind == "null" or not field.nullable:
        return {"name": field.name, "type": kind}
    return {"name": field.name, "type": ["null", kind], "default": None}


def _nullable(kind: Any, nullable: bool) -> Any:
    return ["null", kind] if nullable and kind != "null" else kind


def _named(name: str, namespace: str, path: str) -> dict[str, str]:
    _check_name(name, path)
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _check_name(name: str, path: str) -> None:
    if not _NAME.match(name):
        raise ColumnError(
            f"the column {path!r} can't be a name in Avro, which takes ASCII letters, digits and "
            "underscores, and no digit first: rename it"
        )
