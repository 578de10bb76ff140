"""The text of the messages that are derived for struct columns."""

from __future__ import annotations

from typing import Any

from aioproducer.engine.columnar.protobuf_plan import TIMESTAMP, derived_file


def derived_proto(
    arrow_type: Any, name: str, package: str | None = None, *, column: str = "value"
) -> str:
    """The text of proto3 for the file of ``derived_message()``."""
    return proto_text(derived_file(arrow_type, name, package or "", column))


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
