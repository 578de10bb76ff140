"""Columns of Arrow matched with an Avro schema, or the schema that is derived from their types.

They are matched by name, and widened where nothing is lost. A derived schema is named as Spark's
``SchemaConverters`` name their own: a nested record has the name of its field, in the namespace of
the record around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import (
    UNITS,
    Kind,
    duplicate_names,
    integer_range,
    kind_of,
    plain_type,
    ticks,
)
from aioproducer.engine.columnar.avro_schema import AvroType, encoded_default
from aioproducer.engine.columnar.plan import Node, Write
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import ColumnError, ConfigError
from aioproducer.foundation.varint import varint

_WIDEST_DECIMAL: Final = 76
"""Digits of Arrow's widest decimal."""


def avro_plan(kind: Any, schema: AvroType, path: str, name: str = "") -> Node:
    """The plan for a column of the Arrow type ``kind``.

    Raises ColumnError, which names the column, if some of its values can't be of ``schema``.
    """
    if schema.type == "union":
        return _union(kind, schema, path, name)
    found = kind_of(kind)
    match = _MATCHES.get(found)
    node = match(plain_type(kind), schema, path, name) if match else None
    if node is None:
        reason = "" if match else "; no Avro type represents its values"
        if found is Kind.NULL:
            reason = "; the schema allows no null"
        raise ColumnError(f"the column {path!r} is of type {kind}, the schema's {schema}{reason}")
    return node


def _union(kind: Any, schema: AvroType, path: str, name: str) -> Node:
    null = None
    for number, branch in enumerate(schema.parts):
        if branch.type == "null":
            null = varint(number)
    if kind_of(kind) is Kind.NULL and null is not None:
        return Node(Write.CONSTANT, path, name, before=null)
    fitting, reasons = [], []
    for number, branch in enumerate(schema.parts):
        if branch.type in ("null", "union"):
            continue
        try:
            node = avro_plan(kind, branch, path, name)
        except ColumnError as error:
            reasons.append(error)
        else:
            widened = branch.type != _EXACT.get(_exact_name(kind), branch.type)
            fitting.append((widened, number, node))
    if not fitting:
        if len(reasons) == 1:
            raise reasons[0]
        raise ColumnError(f"the column {path!r} is of type {kind}, the schema's {schema}")
    _, number, node = min(fitting, key=lambda each: each[:2])
    return _in_union(node, varint(number), null)


_EXACT: Final = {
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "text": "string",
    "binary": "bytes",
}
"""The branch of a union that is taken before a wider one."""


def _exact_name(kind: Any) -> str:
    found = kind_of(kind)
    if found is not Kind.INTEGER:
        return str(found.value)
    return "int32" if _fits(plain_type(kind), 32) else "int64"


def _in_union(node: Node, branch: bytes, null: bytes | None) -> Node:
    return Node(
        node.write,
        node.path,
        node.name,
        node.storage,
        node.children,
        branch + node.before,
        null,
        node.multiply,
        node.divide,
        node.width,
        node.symbols,
    )


def _fits(kind: Any, bits: int) -> bool:
    least, greatest = integer_range(kind)
    return bool(-(2 ** (bits - 1)) <= least and greatest < 2 ** (bits - 1))


def _null(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    return Node(Write.CONSTANT, path, name) if schema.type == "null" else None


def _boolean(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    return Node(Write.BOOLEAN, path, name, kind) if schema.type == "boolean" else None


_LOGICAL_INTS: Final = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        *(
            f"{local}timestamp-{unit}"
            for local in ("", "local-")
            for unit in ("millis", "micros", "nanos")
        ),
    },
}
"""The logical types that an integer column does not have by itself."""


def _integer_node(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    bits = {"int": 32, "long": 64}.get(schema.type)
    if not bits or not _fits(kind, bits):
        return None
    if schema.logical in _LOGICAL_INTS[schema.type]:
        return None
    return Node(Write.INTEGER, path, name, kind)


def _float(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type == "float":
        return Node(Write.FLOAT, path, name, kind)
    return _double(imported_pyarrow().float64(), schema, path, name)


def _double(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    return Node(Write.DOUBLE, path, name, kind) if schema.type == "double" else None


def _text(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type == "string":
        return Node(Write.TEXT, path, name, kind)
    if schema.type == "enum":
        symbols = tuple(each.encode() for each in schema.attributes["symbols"])
        return Node(Write.ENUM, path, name, kind, symbols=symbols)
    return None


def _binary(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.logical == "decimal":
        return None
    if schema.type == "bytes":
        return Node(Write.BINARY, path, name, kind)
    if schema.type == "fixed":
        return Node(Write.FIXED, path, name, kind, width=schema.attributes["size"])
    return None


def _fixed(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type == "fixed" and schema.attributes["size"] != kind.byte_width:
        return None
    return _binary(kind, schema, path, name)


def _uuid(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type == "string":
        return Node(Write.UUID, path, name, kind)
    return _fixed(kind, schema, path, name) if schema.type == "fixed" else None


def _decimal(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    """A decimal of the schema's scale: Arrow's cast adds zeros, and refuses what gets too long."""
    if schema.logical != "decimal" or schema.type not in ("bytes", "fixed"):
        return None
    precision, scale = schema.attributes.get("precision"), schema.attributes.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        raise ConfigError(f"the Avro type of {path!r} is a decimal({precision}, {scale})")
    if scale < kind.scale or not 1 <= precision <= _WIDEST_DECIMAL:
        raise ColumnError(
            f"the column {path!r} is of type {kind}, the schema's a decimal({precision}, {scale}): "
            f"{'digits would be lost' if scale < kind.scale else 'Arrow has 76 digits at most'}"
        )
    width = schema.attributes["size"] if schema.type == "fixed" else 0
    arrow = imported_pyarrow()
    wide = arrow.decimal128 if precision <= 38 else arrow.decimal256
    return Node(Write.DECIMAL, path, name, wide(precision, scale), width=width)


def _date(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type != "int" or schema.logical != "date":
        return None
    days = kind == imported_pyarrow().date32()
    return Node(Write.INTEGER, path, name, kind, divide=1 if days else 86_400_000)


_PARTS: Final = {"millis": UNITS["ms"], "micros": UNITS["us"], "nanos": UNITS["ns"]}


def _scaled(kind: Any, unit: str, path: str, name: str) -> Node:
    wanted, given = _PARTS[unit], ticks(kind)
    return Node(
        Write.INTEGER,
        path,
        name,
        kind,
        multiply=max(wanted // given, 1),
        divide=max(given // wanted, 1),
    )


def _time(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    wanted = {"int": "time-millis", "long": "time-micros"}.get(schema.type)
    if wanted is None or schema.logical != wanted:
        return None
    return _scaled(kind, wanted.rpartition("-")[2], path, name)


def _timestamp(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    local, _, unit = (schema.logical or "").rpartition("timestamp-")
    if schema.type != "long" or unit not in _PARTS or local not in ("", "local-"):
        return None
    if (local == "") != (kind.tz is not None):
        zone = "with" if kind.tz else "without"
        raise ColumnError(
            f"the column {path!r} is of type {kind}, {zone} a time zone; "
            f"the schema's {schema}: cast it"
        )
    return _scaled(kind, unit, path, name)


def _struct(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type != "record":
        return None
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    taken = {each["name"] for each in schema.fields}
    for field in kind:
        if field.name not in taken:
            raise ColumnError(
                f"the schema's record {schema.name} has no field for the column "
                f"'{path}.{field.name}'; it has {', '.join(sorted(taken)) or 'none'}"
            )
    children = []
    for field, part in zip(schema.fields, schema.parts, strict=True):
        inner, inner_name = f"{path}.{field['name']}", field["name"]
        if kind.get_field_index(inner_name) >= 0:
            children.append(avro_plan(kind.field(inner_name).type, part, inner, inner_name))
        elif "default" in field:
            default = encoded_default(part, field["default"])
            children.append(Node(Write.CONSTANT, inner, before=default))
        else:
            raise ColumnError(
                f"the schema's record {schema.name} needs the field {inner_name!r} ({part}), which "
                f"has no default; the column {path!r} lacks it"
            )
    return Node(Write.RECORD, path, name, children=tuple(children))


def _list(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type != "array":
        return None
    item = avro_plan(kind.value_type, schema.parts[0], f"{path}[]")
    return Node(Write.ARRAY, path, name, children=(item,))


def _map(kind: Any, schema: AvroType, path: str, name: str) -> Node | None:
    if schema.type != "map":
        return None
    if kind_of(kind.key_type) is not Kind.TEXT:
        raise ColumnError(
            f"the column {path!r} is of type {kind}; keys of Avro's maps are strings: cast them"
        )
    key = Node(Write.TEXT, f"{path}.key", storage=plain_type(kind.key_type))
    item = avro_plan(kind.item_type, schema.parts[0], f"{path}.value")
    return Node(Write.MAP, path, name, children=(key, item))


_MATCHES: Final[dict[Kind, Callable[[Any, AvroType, str, str], Node | None]]] = {
    Kind.NULL: _null,
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer_node,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.TEXT: _text,
    Kind.BINARY: _binary,
    Kind.FIXED: _fixed,
    Kind.UUID: _uuid,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.STRUCT: _struct,
    Kind.LIST: _list,
    Kind.MAP: _map,
}


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
            f"the column {path!r} can't be a name in Avro, which allows ASCII letters, digits and "
            "underscores, and no digit first: rename it"
        )
