"""The file of a message for a struct of Arrow: as a descriptor, and as the text of proto3."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from aioproducer.engine.columnar.arrow_types import (
    Kind,
    duplicate_names,
    integer_range,
    kind_of,
    plain_type,
)
from aioproducer.engine.columnar.protobuf_plan import TIMESTAMP
from aioproducer.errors import ColumnError, MissingExtraError

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
            "that in a message alone: put it into a struct"
        )
    else:
        raise ColumnError(f"the column {path!r} is of type {kind}, which has no form in a message")


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


def proto_text(file: Any) -> str:
    """The text of a file of :func:`derived_file`."""
    lines = ['syntax = "proto3";', ""]
    if file.package:
        lines += [f"package {file.package};", ""]
    if file.dependency:
        lines += [*(f'import "{each}";' for each in file.dependency), ""]
    text = "\n".join([*lines, *_message_lines(file.message_type[0]), ""])
    # In the package com.google, names that begin with google are looked up there.
    is_hidden = "google" in file.package.split(".")[1:]
    return text.replace(f" {TIMESTAMP} ", f" .{TIMESTAMP} ") if is_hidden else text


def _message_lines(message: Any) -> list[str]:
    lines = [f"message {message.name} {{"]
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            key, item = entry.field
            declared = f"map<{_type_name(key)}, {_type_name(item)}>"
        else:
            repeated = "repeated " if field.label == field.LABEL_REPEATED else ""
            optional = "optional " if field.proto3_optional else ""
            declared = f"{repeated}{optional}{_type_name(field)}"
        lines.append(f"  {declared} {field.name} = {field.number};")
    for each in message.nested_type:
        if not each.options.map_entry:
            lines += ["", *(f"  {line}".rstrip() for line in _message_lines(each))]
    return [*lines, "}"]


def _type_name(field: Any) -> str:
    if field.type_name == f".{TIMESTAMP}":
        return TIMESTAMP
    if field.type == field.TYPE_MESSAGE:
        return str(field.type_name.rpartition(".")[2])
    return str(field.Type.Name(field.type)).removeprefix("TYPE_").lower()
