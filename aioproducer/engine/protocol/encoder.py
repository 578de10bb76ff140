"""Messages to bytes. No I/O.

An encoder is built from a struct for one version when it is first used. It raises
:class:`UnsupportedVersionError` for a field that the version does not have or has no room for, and
:class:`struct.error` for a number out of range.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from aioproducer.engine.protocol.decoder import FORMATS, NO_UUID, Form
from aioproducer.engine.protocol.table import Field, Struct
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.foundation.varint import unsigned_varint

_LONGEST_TEXT: Final = 2**15 - 1
"""Bytes of a text whose length is no varint."""

Add: TypeAlias = Callable[[bytes], None]
Write: TypeAlias = Callable[[Add, Any], None]
"""Adds the bytes of a value."""


def struct_writer(of: Struct, form: Form) -> Write:
    """The encoder of a struct."""
    steps: list[Write] = []
    tagged: list[tuple[int, int, Any, Write]] = []
    last = ""
    places = {each.name: index for index, each in enumerate(of.fields)}
    for how, neighbours in groupby(of.fields, lambda field: _how(field, form.version)):
        fields = [*neighbours]
        if how == "absent":
            steps += [
                _refusal(of.name, each, places[each.name], form.version)
                for each in fields
                if not each.ignorable
            ]
        elif how == "tagged":
            for each in fields:
                assert each.tag is not None
                place = places[each.name]
                tagged.append((each.tag, place, each.default, _value_writer(of, each, form)))
        elif how == "numbers":
            numbers = fields, [places[each.name] for each in fields]
            steps.append(_numbers(*numbers))
        else:
            steps += [_one(places[each.name], _value_writer(of, each, form)) for each in fields]
        last = how
    if form.flexible and tagged:
        steps.append(_tags_writer(sorted(tagged, key=itemgetter(0))))
    elif form.flexible and last == "numbers":
        steps[-1] = _numbers(*numbers, then="x")  # no tags: a byte with zero
    elif form.flexible:
        steps.append(_no_tags)
    if len(steps) == 1:
        return steps[0]

    def write(add: Add, value: Any) -> None:
        for step in steps:
            step(add, value)

    return write


def _how(field: Field, version: int) -> str:
    if version not in field.versions:
        return "absent"
    if field.tag is not None:
        return "tagged"
    return "numbers" if field.kind in FORMATS and not field.listed else "value"


def _refusal(name: str, field: Field, place: int, version: int) -> Write:
    def check(add: Add, value: Any) -> None:
        if value[place] not in (None, field.default):
            said = f"{field.name}={value[place]!r}"
            raise UnsupportedVersionError(f"version {version} of {name} has no field for {said}")

    return check


def _numbers(fields: list[Field], places: list[int], then: str = "") -> Write:
    pack = struct.Struct(">" + "".join(FORMATS[each.kind] for each in fields) + then).pack
    if len(places) == 1:
        [place] = places
        return lambda add, value: add(pack(value[place]))
    pick = itemgetter(*places)
    return lambda add, value: add(pack(*pick(value)))


def _one(place: int, write: Write) -> Write:
    return lambda add, value: write(add, value[place])


def _no_tags(add: Add, value: Any) -> None:
    add(b"\0")


def _tags_writer(tagged: list[tuple[int, int, Any, Write]]) -> Write:
    """A tagged field is written unless it has its default."""

    def write(add: Add, value: Any) -> None:
        for _, place, default, _ in tagged:
            if value[place] != default:
                break
        else:
            add(b"\0")
            return
        said = [each for each in tagged if value[each[1]] != each[2]]
        add(unsigned_varint(len(said)))
        for tag, place, _, write_value in said:
            parts: list[bytes] = []
            write_value(parts.append, value[place])
            content = b"".join(parts)
            add(unsigned_varint(tag) + unsigned_varint(len(content)))
            add(content)

    return write


# --- values ------------------------------------------------------------------------------------


def _value_writer(of: Struct, field: Field, form: Form) -> Write:
    nullable = form.version in field.nullable
    name = f"{of.name}.{field.name}"
    if field.listed:
        return _nullable(_list_writer(field, form), name, nullable, length(form.flexible, -1))
    if field.kind in form.structs:
        inner = struct_writer(form.structs[field.kind], form)
        return _nullable(_after(b"\1", inner), name, nullable, b"\xff") if nullable else inner
    write = _scalar_writer(field.kind, form.flexible)
    if field.kind in FORMATS or field.kind == "uuid":
        return write
    return _nullable(write, name, nullable, length(form.flexible, -1, short=field.kind == "string"))


def _nullable(write: Write, name: str, nullable: bool, null: bytes) -> Write:
    def write_or_null(add: Add, value: Any) -> None:
        if value is not None:
            write(add, value)
        elif nullable:
            add(null)
        else:
            raise ProtocolError(f"{name} can't be null")

    return write_or_null


def _after(begin: bytes, write: Write) -> Write:
    def write_after(add: Add, value: Any) -> None:
        add(begin)
        write(add, value)

    return write_after


def _scalar_writer(kind: str, flexible: bool) -> Write:
    if kind in FORMATS:
        pack = struct.Struct(">" + FORMATS[kind]).pack
        return lambda add, value: add(pack(value))
    if kind == "uuid":
        return lambda add, value: add(NO_UUID if value is None else value.bytes)
    if kind == "string":
        return lambda add, value: add(text(value, flexible))

    def write_bytes(add: Add, value: bytes) -> None:
        add(length(flexible, len(value)))
        add(value)

    return write_bytes


def _list_writer(field: Field, form: Form) -> Write:
    if field.kind in FORMATS:
        return _number_list_writer(FORMATS[field.kind], form)
    if field.kind in form.structs:
        inner = struct_writer(form.structs[field.kind], form)
    else:
        inner = _scalar_writer(field.kind, form.flexible)

    def write(add: Add, values: Any) -> None:
        add(length(form.flexible, len(values)))
        for each in values:
            inner(add, each)

    return write


def _number_list_writer(kind: str, form: Form) -> Write:
    def write(add: Add, values: Any) -> None:
        count = len(values)
        add(length(form.flexible, count) + struct.pack(f">{count}{kind}", *values))

    return write


# --- lengths -----------------------------------------------------------------------------------


def length(flexible: bool, size: int, *, short: bool = False) -> bytes:
    """The length in front of a list, of bytes or (``short``) of a string; -1: null."""
    if flexible:
        return unsigned_varint(size + 1)
    if short and size > _LONGEST_TEXT:
        raise UnsupportedVersionError(f"a text of {size} bytes: there is room for {_LONGEST_TEXT}")
    return size.to_bytes(2 if short else 4, "big", signed=True)


def text(value: str, flexible: bool) -> bytes:
    """A string with its length in front."""
    encoded = value.encode()
    return length(flexible, len(encoded), short=True) + encoded
