"""An Avro schema as it is read: checked once, its names resolved.

Source: the Avro specification 1.12, "Schema Declaration" and "Names".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aioproducer.errors import ConfigError
from aioproducer.foundation.varint import varint

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_NAMED: Final = ("record", "error", "enum", "fixed")
_DEEPEST: Final = 100
"""Levels of a schema. A deeper one is refused, before Python's own limit is reached."""
_JSON_TYPES: Final = {"record": dict, "map": dict, "array": list}
"""The classes of the defaults of types that have parts."""


@dataclass(frozen=True, slots=True, eq=False)
class AvroType:
    """One type of a schema. A named type that contains itself is one object."""

    type: str
    name: str = ""
    """The full name of a record, an enum or a fixed."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    parts: list[AvroType] = field(default_factory=list)
    """The types of the fields of a record, of the branches of a union, of items or values."""

    def __str__(self) -> str:
        logical = self.attributes.get("logicalType")
        text = f"{self.type} {self.name}" if self.name else self.type
        if self.type == "union":
            text = f"[{', '.join(map(str, self.parts))}]"
        return f"{text} ({logical})" if isinstance(logical, str) else text

    @property
    def logical(self) -> str | None:
        """The logical type."""
        logical = self.attributes.get("logicalType")
        return logical if isinstance(logical, str) else None

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of a record; ``parts`` has their types."""
        fields: list[dict[str, Any]] = self.attributes["fields"]
        return fields


def read_avro_schema(schema: Any, named: Mapping[str, Any] | None = None) -> AvroType:
    """``schema`` (a dict, a list, a name or JSON text) with the types it refers to in ``named``.

    Raises ConfigError, which says where the schema is not Avro's.
    """
    reading = _Reading({name: _parsed(each) for name, each in (named or {}).items()})
    return reading.type(_parsed(schema), "", 0)


def _parsed(schema: Any) -> Any:
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"the Avro schema is not JSON: {error}") from error
    return schema


class _Reading:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, AvroType] = {}

    def type(self, schema: Any, namespace: str, level: int) -> AvroType:
        if level > _DEEPEST:
            raise ConfigError(f"the Avro schema has more than {_DEEPEST} levels")
        if isinstance(schema, str):
            return self._by_name(schema, namespace, level)
        if isinstance(schema, list):
            return AvroType(
                "union", parts=[self.type(each, namespace, level + 1) for each in schema]
            )
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise ConfigError(f"the Avro schema has {_short(schema)}, which is not a type")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace, level + 1)
        if kind in PRIMITIVES:
            return AvroType(kind, attributes=schema)
        if kind in ("array", "map"):
            part = schema.get("items" if kind == "array" else "values")
            return AvroType(kind, attributes=schema, parts=[self.type(part, namespace, level + 1)])
        if kind in _NAMED:
            return self._definition(kind, schema, namespace, level)
        return self._by_name(kind, namespace, level)

    def _by_name(self, name: str, namespace: str, level: int) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._known:
                return self._known[full]
            if full in self._named:
                defined = self.type(self._named[full], full.rpartition(".")[0], level + 1)
                return self._known.setdefault(full, defined)
        raise ConfigError(f"the Avro schema refers to the type {name!r}, which is not there")

    def _definition(
        self, kind: str, schema: Mapping[str, Any], namespace: str, level: int
    ) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"the Avro schema has {_short(schema)}, a {kind} without a name")
        if "." not in name:
            space = schema.get("namespace", namespace)
            name = f"{space}.{name}" if isinstance(space, str) and space else name
        defined = AvroType("record" if kind == "error" else kind, name, schema)
        self._known[name] = defined
        if kind == "fixed":
            _check_fixed(name, schema)
        elif kind == "enum":
            _check_enum(name, schema)
        else:
            inner = name.rpartition(".")[0]
            for each in _checked_fields(name, schema):
                defined.parts.append(self.type(each["type"], inner, level + 1))
        return defined


def _checked_fields(name: str, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise ConfigError(f"the Avro record {name!r} has no list of fields")
    for each in fields:
        if (
            not isinstance(each, Mapping)
            or not isinstance(each.get("name"), str)
            or "type" not in each
        ):
            raise ConfigError(f"the Avro record {name!r} has the field {_short(each)}")
    return fields


def _check_fixed(name: str, schema: Mapping[str, Any]) -> None:
    size = schema.get("size")
    if type(size) is not int or not 0 <= size < 2**31:
        raise ConfigError(f"the Avro fixed {name!r} has the size {_short(size)}")


def _check_enum(name: str, schema: Mapping[str, Any]) -> None:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
        raise ConfigError(f"the Avro enum {name!r} has no list of symbols")


def _short(schema: Any) -> str:
    text = repr(schema)
    return text if len(text) <= 60 else f"{text[:57]}..."


def encoded_default(schema: AvroType, default: Any) -> bytes:
    """A field's default in Avro's encoding. Raises ConfigError if it is not of the type."""
    return _encoded_default(schema, default, 0, set())


def _encoded_default(
    schema: AvroType, default: Any, level: int, refused: set[tuple[int, int]]
) -> bytes:
    """``refused``: the ids of branches of unions, each with that of a default that it refused."""
    wrong = ConfigError(f"the default {_short(default)} is not of type {schema}")
    if level > _DEEPEST:
        raise wrong
    try:
        return _default(schema, default, level, refused)
    except (TypeError, ValueError, OverflowError, struct.error, LookupError, AttributeError) as why:
        if isinstance(why, ConfigError):
            raise
        raise wrong from why


def _default(schema: AvroType, default: Any, level: int, refused: set[tuple[int, int]]) -> bytes:
    kind, parts = schema.type, schema.parts
    if kind == "union":
        return _union_default(parts, default, level, refused)
    if kind in _JSON_TYPES and not isinstance(default, _JSON_TYPES[kind]):
        raise TypeError
    if kind == "record":
        return b"".join(
            _encoded_default(
                part,
                default[each["name"]] if each["name"] in default else each["default"],
                level + 1,
                refused,
            )
            for each, part in zip(schema.fields, parts, strict=True)
        )
    if kind in ("array", "map"):
        items = [
            (sized(each.encode()) if kind == "map" else b"")
            + _encoded_default(
                parts[0], default[each] if kind == "map" else each, level + 1, refused
            )
            for each in default
        ]
        return (varint(len(items)) if items else b"") + b"".join(items) + b"\0"
    if kind == "enum":
        return varint(schema.attributes["symbols"].index(default))
    return _primitive_default(schema, default)


def _union_default(
    branches: Sequence[AvroType], default: Any, level: int, refused: set[tuple[int, int]]
) -> bytes:
    """The default in the first branch that takes it, as Avro 1.12 has it; before, in the first."""
    for number, branch in enumerate(branches):
        attempt = id(branch), id(default)
        if attempt not in refused:
            try:
                return varint(number) + _encoded_default(branch, default, level + 1, refused)
            except ConfigError:
                refused.add(attempt)
    raise TypeError


def _primitive_default(schema: AvroType, default: Any) -> bytes:
    kind = schema.type
    bits = {"int": 32, "long": 64}.get(kind)
    if kind == "null" and default is None:
        return b""
    if kind == "boolean" and isinstance(default, bool):
        return b"\1" if default else b"\0"
    if bits and type(default) is int and -(2 ** (bits - 1)) <= default < 2 ** (bits - 1):
        return varint(default)
    if kind in ("float", "double") and type(default) in (int, float):
        return struct.pack("<f" if kind == "float" else "<d", default)
    if kind == "string":
        return sized(default.encode())
    if kind == "bytes":
        return sized(default.encode("latin-1"))
    if kind == "fixed" and len(default) == schema.attributes["size"]:
        encoded: bytes = default.encode("latin-1")
        return encoded
    raise TypeError


def sized(data: bytes) -> bytes:
    """``data`` with its size before it, as Avro's strings and bytes have it."""
    return varint(len(data)) + data
