"""Columns of Arrow matched with a message of Protocol Buffers, by the names of its fields.

Descriptors are only used here: the plan has what the encoders need. The file of a message can also
be derived from a struct of Arrow: as a descriptor, and as the text of proto3.

Source: "Encoding", https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from importlib import import_module
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
from aioproducer.engine.columnar.json_plan import wide_decimal
from aioproducer.engine.columnar.plan import Node, Write
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import ColumnError, MissingExtraError
from aioproducer.foundation.varint import unsigned_varint


class WireType(IntEnum):
    """The form of the bytes after a tag."""

    VARINT = 0
    EIGHT_BYTES = 1
    SIZED = 2
    FOUR_BYTES = 5


def varint(number: int) -> bytes:
    """A number of 64 bits; a negative one has ten bytes."""
    return unsigned_varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def tag(number: int, wire_type: WireType) -> bytes:
    """The number of a field and the form of its value."""
    return varint(number << 3 | wire_type)


def sized(data: bytes) -> bytes:
    """``data`` with its size before it."""
    return varint(len(data)) + data


TIMESTAMP: Final = "google.protobuf.Timestamp"
_TYPES: Final = [
    "",
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "group",
    "message",
    "bytes",
    "uint32",
    "enum",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
]
"""The names by their numbers. Source: ``FieldDescriptorProto.Type``."""
_INTEGERS: Final = {
    "int32": (Write.INTEGER, -(2**31), 2**31),
    "sint32": (Write.ZIGZAG, -(2**31), 2**31),
    "sfixed32": (Write.FIXED_32, -(2**31), 2**31),
    "uint32": (Write.INTEGER, 0, 2**32),
    "fixed32": (Write.FIXED_32, 0, 2**32),
    "int64": (Write.INTEGER, -(2**63), 2**63),
    "sint64": (Write.ZIGZAG, -(2**63), 2**63),
    "sfixed64": (Write.FIXED_64, -(2**63), 2**63),
    "uint64": (Write.INTEGER, 0, 2**64),
    "fixed64": (Write.FIXED_64, 0, 2**64),
    "enum": (Write.INTEGER, -(2**31), 2**31),
}
_WIRE_TYPES: Final = {
    "double": WireType.EIGHT_BYTES,
    "float": WireType.FOUR_BYTES,
    "fixed64": WireType.EIGHT_BYTES,
    "sfixed64": WireType.EIGHT_BYTES,
    "fixed32": WireType.FOUR_BYTES,
    "sfixed32": WireType.FOUR_BYTES,
    "string": WireType.SIZED,
    "bytes": WireType.SIZED,
    "message": WireType.SIZED,
}


def protobuf_plan(kind: Any, message: Any, path: str) -> Node:
    """The plan for a struct column as ``message``, a descriptor.

    Raises ColumnError, which names the column, if some of its values can't be in its field.
    """
    if kind_of(kind) is not Kind.STRUCT:
        raise ColumnError(
            f"the column {path!r} is of type {kind}; the message {message.full_name} wants a struct"
        )
    return _message(plain_type(kind), message, path)


def _message(kind: Any, message: Any, path: str) -> Node:
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    fields = {field.name: field for field in message.fields}
    taken: dict[str, str] = {}
    children = []
    for member in kind:
        inner = f"{path}.{member.name}"
        field = fields.pop(member.name, None)
        if field is None:
            names = ", ".join(sorted(each.name for each in message.fields)) or "none"
            raise ColumnError(
                f"the message {message.full_name} has no field for the column {inner!r}; it has "
                f"{names}"
            )
        choice = field.containing_oneof
        if choice is not None and len(choice.fields) > 1 and choice.name in taken:
            raise ColumnError(
                f"the columns '{path}.{taken[choice.name]}' and {inner!r} are of the same oneof, "
                f"{choice.name!r}, which has one of them at most"
            )
        if choice is not None:
            taken[choice.name] = member.name
        children.append((field.number, _field(member.type, field, inner)))
    for field in fields.values():
        if is_required(field):
            raise ColumnError(
                f"the message {message.full_name} needs the field {field.name!r}; the column "
                f"{path!r} lacks it"
            )
    in_order = tuple(node for _, node in sorted(children, key=lambda each: each[0]))
    return Node(Write.RECORD, path, children=in_order)


def _field(kind: Any, field: Any, path: str) -> Node:
    """A member of a message: a null is left out."""
    null = None if is_required(field) else b""
    if kind_of(kind) is Kind.NULL and null is not None:
        return Node(Write.CONSTANT, path, field.name)
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map or is_repeated(field):
        wanted = Kind.MAP if is_map else Kind.LIST
        if kind_of(kind) is not wanted:
            raise _no_match(kind, field, path)
        node = (_map if is_map else _list)(plain_type(kind), field, path)
        return replace(node, name=field.name, null=b"")
    node = replace(_value(kind, field, path), name=field.name, null=null)
    if field.has_presence or node.write in (Write.RECORD, Write.TIMESTAMP):
        return node
    return replace(node, leaves_out_default=True)


def _list(kind: Any, field: Any, path: str) -> Node:
    item = _value(kind.value_type, field, f"{path}[]")
    if not field.is_packed:
        return Node(Write.ARRAY, path, children=(item,))
    before = tag(field.number, WireType.SIZED)
    return Node(Write.PACKED, path, children=(replace(item, before=b""),), before=before)


def _map(kind: Any, field: Any, path: str) -> Node:
    fields = field.message_type.fields_by_name
    key = _value(kind.key_type, fields["key"], f"{path}.key")
    item = _value(kind.item_type, fields["value"], f"{path}.value")
    before = tag(field.number, WireType.SIZED)
    return Node(Write.MAP, path, children=(key, item), before=before)


def _value(kind: Any, field: Any, path: str) -> Node:
    """One value after its tag."""
    name = _TYPES[field.type]
    match = _MATCHES.get(kind_of(kind))
    node = match(plain_type(kind), field, name, path) if match else None
    if node is None:
        raise _no_match(kind, field, path)
    return replace(node, before=tag(field.number, _WIRE_TYPES.get(name, WireType.VARINT)))


def _no_match(kind: Any, field: Any, path: str) -> ColumnError:
    name = _TYPES[field.type]
    if name in ("message", "enum"):
        name = (field.message_type or field.enum_type).full_name
    repeated = "repeated " if is_repeated(field) else ""
    return ColumnError(
        f"the column {path!r} is of type {kind}, the message's field {repeated}{name}"
    )


def is_repeated(field: Any) -> bool:
    """Older packages only have ``label``, newer ones have no ``label``."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def is_required(field: Any) -> bool:
    """Newer packages have ``is_required``, older ones only ``label``."""
    found = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if found is None else found)


def _boolean(kind: Any, field: Any, name: str, path: str) -> Node | None:
    return Node(Write.BOOLEAN, path, storage=kind) if name == "bool" else None


def _integer_node(kind: Any, field: Any, name: str, path: str) -> Node | None:
    write, least, behind = _INTEGERS.get(name, (Write.INTEGER, 0, 0))
    first, last = integer_range(kind)
    return Node(write, path, storage=kind) if least <= first and last < behind else None


def _float(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name == "float":
        return Node(Write.FLOAT, path, storage=kind)
    return _double(imported_pyarrow().float64(), field, name, path)


def _double(kind: Any, field: Any, name: str, path: str) -> Node | None:
    return Node(Write.DOUBLE, path, storage=kind) if name == "double" else None


def _text(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name == "enum":
        symbols = [
            part
            for each in field.enum_type.values
            for part in (each.name.encode(), varint(each.number))
        ]
        return Node(Write.ENUM, path, storage=kind, symbols=tuple(symbols))
    if name == "string":
        return Node(Write.TEXT, path, storage=kind)
    return _binary(kind, field, name, path)


def _binary(kind: Any, field: Any, name: str, path: str) -> Node | None:
    return Node(Write.BINARY, path, storage=kind) if name == "bytes" else None


def _uuid(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name == "string":
        return Node(Write.UUID, path, storage=kind)
    return _binary(kind, field, name, path)


def _decimal(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name != "string":
        return None
    return Node(Write.DECIMAL, path, storage=wide_decimal(kind), width=kind.scale)


def _date(kind: Any, field: Any, name: str, path: str) -> Node | None:
    """The days since 1970-01-01."""
    divide = 1 if kind == imported_pyarrow().date32() else 86_400_000
    if name in ("int32", "int64"):
        return Node(Write.INTEGER, path, storage=kind, divide=divide)
    return None


def _micros(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name != "int64":
        return None
    given, wanted = ticks(kind), UNITS["us"]
    multiply, divide = max(wanted // given, 1), max(given // wanted, 1)
    return Node(Write.INTEGER, path, storage=kind, multiply=multiply, divide=divide)


def _timestamp(kind: Any, field: Any, name: str, path: str) -> Node | None:
    """An instant is Google's Timestamp; without a time zone, microseconds on the local clock."""
    if kind.tz is None:
        return _micros(kind, field, name, path)
    if name != "message" or field.message_type.full_name != TIMESTAMP:
        return None
    return Node(Write.TIMESTAMP, path, storage=kind, divide=ticks(kind))


def _struct(kind: Any, field: Any, name: str, path: str) -> Node | None:
    if name != "message" or field.message_type.full_name == TIMESTAMP:
        return None
    return _message(kind, field.message_type, path)


_MATCHES: Final[dict[Kind, Callable[[Any, Any, str, str], Node | None]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer_node,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.TEXT: _text,
    Kind.BINARY: _binary,
    Kind.FIXED: _binary,
    Kind.UUID: _uuid,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.TIME: _micros,
    Kind.TIMESTAMP: _timestamp,
    Kind.STRUCT: _struct,
}


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TIMESTAMP_FILE: Final = "google/protobuf/timestamp.proto"
_MOST_FIELDS: Final = 18_999
"""The numbers from 19000 on are not for users."""
_PLAIN: Final = {
    Kind.BOOLEAN: "bool",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.TEXT: "string",
    Kind.BINARY: "bytes",
    Kind.FIXED: "bytes",
    Kind.UUID: "string",
    Kind.DECIMAL: "string",
    Kind.DATE: "int32",
    Kind.TIME: "int64",
    Kind.TIMESTAMP: "int64",
}


def imported_protobuf(name: str) -> Any:
    """A module of ``google.protobuf``. Raises MissingExtraError if the package is not installed."""
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError as error:
        raise MissingExtraError(
            "messages of Protocol Buffers need protobuf: pip install 'aioproducer[schema-registry]'"
        ) from error


def derived_file(kind: Any, name: str, package: str, path: str) -> Any:
    """A ``FileDescriptorProto`` with the message ``name`` for a struct.

    Raises ColumnError if a field has no form in a message.
    """
    if kind_of(kind) is not Kind.STRUCT:
        raise ColumnError(f"the column {path!r} is of type {kind}; a message needs a struct")
    file = imported_protobuf("descriptor_pb2").FileDescriptorProto(
        name=f"{name}.proto", package=package, syntax="proto3"
    )
    scope = f".{package}.{name}" if package else f".{name}"
    _fill_message(file.message_type.add(), plain_type(kind), name, scope, path)
    if _has_timestamps(file.message_type[0]):
        file.dependency.append(_TIMESTAMP_FILE)
    return file


def message_descriptor(file: Any) -> Any:
    """The descriptor of the first message of a ``FileDescriptorProto``."""
    descriptor_pb2 = imported_protobuf("descriptor_pb2")
    pool = imported_protobuf("descriptor_pool").DescriptorPool()
    if file.dependency:
        timestamps = descriptor_pb2.FileDescriptorProto()
        imported_protobuf("timestamp_pb2").DESCRIPTOR.CopyToProto(timestamps)
        pool.Add(timestamps)
    pool.Add(file)
    name = file.message_type[0].name
    return pool.FindMessageTypeByName(f"{file.package}.{name}" if file.package else name)


def _has_timestamps(message: Any) -> bool:
    return any(field.type_name == f".{TIMESTAMP}" for field in message.field) or any(
        _has_timestamps(each) for each in message.nested_type
    )


def _fill_message(message: Any, kind: Any, name: str, scope: str, path: str) -> None:
    _check_name(name, path)
    message.name = name
    if repeated := duplicate_names(kind):
        raise ColumnError(f"the column {path!r} has more than one field {repeated[0]!r}")
    if kind.num_fields > _MOST_FIELDS:
        raise ColumnError(f"the column {path!r} has more than {_MOST_FIELDS} fields")
    taken: dict[str, str] = {}
    for number, member in enumerate(kind, 1):
        inner = f"{path}.{member.name}"
        _check_name(member.name, inner)
        other = taken.setdefault(_camel_case(member.name), member.name)
        if other != member.name:
            raise ColumnError(
                f"the columns '{path}.{other}' and {inner!r} have the same name in Protocol "
                "Buffers' JSON: rename one"
            )
        field = message.field.add(name=member.name, number=number)
        _fill_field(message, field, member, scope, inner)
    nested = [each.name for each in message.nested_type]
    for each in nested:
        if nested.count(each) > 1:
            raise ColumnError(f"the column {path!r} needs two messages {each!r}: rename a field")
    for number, field in enumerate(each for each in message.field if each.proto3_optional):
        message.oneof_decl.add(name=f"_{field.name}")
        field.oneof_index = number


def _fill_field(message: Any, field: Any, member: Any, scope: str, path: str) -> None:
    found, kind = kind_of(member.type), plain_type(member.type)
    field.label = field.LABEL_OPTIONAL
    if found is Kind.LIST:
        field.label = field.LABEL_REPEATED
        _fill_type(message, field, kind.value_type, scope, f"{path}[]")
    elif found is Kind.MAP:
        field.label = field.LABEL_REPEATED
        _fill_map(message, field, kind, scope, path)
    else:
        _fill_type(message, field, member.type, scope, path)
        is_message = field.type == field.TYPE_MESSAGE
        if member.nullable and not is_message:
            field.proto3_optional = True


def _fill_map(message: Any, field: Any, kind: Any, scope: str, path: str) -> None:
    if kind_of(kind.key_type) not in (Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN):
        raise ColumnError(
            f"the column {path!r} is of type {kind}; keys of maps in Protocol Buffers are strings, "
            "integers or booleans: cast them"
        )
    name = f"{_camel_case(field.name)}Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=field.LABEL_OPTIONAL)
    item = entry.field.add(name="value", number=2, label=field.LABEL_OPTIONAL)
    _fill_type(message, key, kind.key_type, scope, f"{path}.key")
    item.name = field.name
    _fill_type(message, item, kind.item_type, scope, f"{path}.value")
    item.name = "value"
    field.type, field.type_name = field.TYPE_MESSAGE, f"{scope}.{name}"


def _fill_type(message: Any, field: Any, kind: Any, scope: str, path: str) -> None:
    found, plain = kind_of(kind), plain_type(kind)
    if found is Kind.STRUCT:
        name = _camel_case(field.name)
        field.type, field.type_name = field.TYPE_MESSAGE, f"{scope}.{name}"
        _fill_message(message.nested_type.add(), plain, name, f"{scope}.{name}", path)
    elif found is Kind.TIMESTAMP and plain.tz is not None:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{TIMESTAMP}"
    elif found is Kind.INTEGER:
        field.type = getattr(field, f"TYPE_{_integer(plain).upper()}")
    elif found in _PLAIN:
        field.type = getattr(field, f"TYPE_{_PLAIN[found].upper()}")
    elif found in (Kind.LIST, Kind.MAP):
        raise ColumnError(
            f"the column {path!r} is of type {kind}, within a list or map; Protocol Buffers have "
            "that only in a message: put it into a struct"
        )
    else:
        raise ColumnError(f"the column {path!r} is of type {kind}, which a message can't contain")


def _integer(kind: Any) -> str:
    least, greatest = integer_range(kind)
    sign = "u" if least == 0 and greatest >= 2**31 else ""
    return f"{sign}int{'32' if greatest < 2**32 else '64'}"


def _camel_case(name: str) -> str:
    """The name of a nested message; protoc names the entries of maps in this way."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "_"


def _check_name(name: str, path: str) -> None:
    if not _NAME.match(name):
        raise ColumnError(
            f"the column {path!r} can't be a name in Protocol Buffers, which take ASCII letters, "
            "digits and underscores, and no digit first: rename it"
        )
