"""Bytes to messages and messages to bytes. No I/O.

The decoder of a message is written as Python when a version is first used, as :mod:`dataclasses`
writes methods: straight code, without a call for each field. Nothing is made for a length that the
bytes left can't hold, or that no peer has reason for; unknown tagged fields are skipped (KIP-482),
and the depth is the table's. Bytes that are no such message raise :class:`ProtocolError`,
:class:`struct.error`, :class:`IndexError` or :class:`ValueError`.

The encoder of a struct is built from functions when a version is first used. It raises
:class:`UnsupportedVersionError` for a field that the version does not have or has no room for, and
:class:`struct.error` for a number out of range.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.engine.protocol.table import NONE, Field, Struct
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.foundation.varint import unsigned_varint

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""The value at an offset, and the offset of its end."""

Steps: TypeAlias = Callable[[bytes, int], Generator[Any, None, int]]
"""The structs from an offset on; returns the offset of their end."""

WholeSteps: TypeAlias = Callable[[bytes, int], Generator[int, None, tuple[Any, int]]]
"""As :data:`Read`, with a step for each element of a list, which yields the offset of its end."""

MOST_NUMBERS: Final = 1 << 18
"""The most elements of a list of numbers, which is read at once: the partitions of a topic."""
LONGEST_STRING: Final = 0x7FFF
"""Bytes, as in Kafka's generated messages."""
MOST_TAGGED: Final = 10_000
"""The most elements of a list in a tagged field, which is read at once: the brokers of a cluster,
its features."""
MOST_TAGS: Final = 16
"""The most tagged fields of a struct, those of later versions included. Kafka has four at most."""

FORMATS: Final = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
"""The numbers' formats in :mod:`struct`."""
UUID_BYTES: Final = 16
_LITERALS: Final = frozenset(map(repr, (None, True, False, -1, 0, "", b"", ())))
"""The constants that are written as they are. Comparing bytes with anything else is an error for
``python -bb``."""
NO_UUID: Final = bytes(UUID_BYTES)
_LONGEST_VARINT: Final = 5
_STEP: Final = "    "


class Form(NamedTuple):
    """The form of a message in one version."""

    structs: Mapping[str, Struct]
    version: int
    flexible: bool
    """True: lengths are compact and structs have tagged fields (KIP-482)."""


def reader(of: Struct, form: Form) -> Read:
    """The decoder of a struct."""
    code = _Code(form)
    code.add(f"return {code.struct(of)}, offset")
    read: Read = code.function(of.name)
    return read


def steps_reader(of: Struct, form: Form, *, numbers: bool) -> Steps:
    """A decoder in steps. ``numbers``: with lists of numbers; else they are empty."""
    code = _Code(form, in_steps=True, numbers=numbers)
    code.add(f"yield {code.struct(of)}")
    code.add("return offset")
    read: Steps = code.function(of.name)
    return read


def whole_steps_reader(of: Struct, form: Form) -> WholeSteps:
    """The decoder of a struct, in steps."""
    code = _Code(form, rests=True)
    code.add("yield offset")
    code.add(f"return {code.struct(of)}, offset")
    read: WholeSteps = code.function(of.name)
    return read


class _Code:
    """The code of a decoder. Each method adds lines, and returns the variable with the value.

    ``in_steps``: each struct of a list is yielded; ``rests``: each element is kept, and an
    offset is yielded.
    ``tagged``: the code of a tagged field, which has a bound as it is read at once.
    """

    def __init__(
        self,
        form: Form,
        *,
        in_steps: bool = False,
        numbers: bool = True,
        rests: bool = False,
        tagged: bool = False,
    ) -> None:
        self._form = form
        self._in_steps = in_steps
        self._rests = rests
        self._tagged = tagged
        self._with_numbers = numbers
        self._lines: list[str] = []
        self._depth = 1
        self._variables = 0
        self._names: dict[str, Any] = {
            "new": tuple.__new__,
            "UUID": UUID,
            "NO_UUID": NO_UUID,
            "compact_length": compact_length,
            "int16": struct.Struct(">h").unpack_from,
            "int32": struct.Struct(">i").unpack_from,
            "unpack": struct.unpack_from,
            "tags": _read_tags,
            "refuse": _refuse,
            "refuse_many": _refuse_many,
            "refuse_null": _refuse_null,
        }

    def add(self, line: str) -> None:
        self._lines.append(_STEP * self._depth + line)

    def function(self, name: str) -> Any:
        lines = ["def read(body, offset):", f"{_STEP}limit = len(body)", *self._lines]
        source = compile("\n".join(lines), f"<{name} version {self._form.version}>", "exec")
        exec(source, self._names)
        return self._names["read"]

    def struct(self, of: Struct) -> str:
        values: list[str] = []
        for how, neighbours in groupby(of.fields, self._how):
            fields = [*neighbours]
            if how == "absent":
                values += [self._absent(each) for each in fields]
            elif how == "numbers":
                values += self._numbers(fields)
            else:
                values += [self._value(each) for each in fields]
        if self._form.flexible:
            self._tags(of, values)
        value = self._variable()
        self.add(f"{value} = new({self._constant(of.kind)}, ({''.join(f'{v}, ' for v in values)}))")
        return value

    def _how(self, field: Field) -> str:
        if self._form.version not in field.versions or field.tag is not None:
            return "absent"
        return "numbers" if field.kind in FORMATS and not field.listed else "value"

    def _absent(self, field: Field) -> str:
        """A list that a version lacks is None, not an empty list."""
        lacks = self._form.version not in field.versions
        return "None" if lacks and field.listed else self._constant(field.default)

    def _numbers(self, fields: list[Field]) -> list[str]:
        """Adjacent numbers are read together."""
        layout = struct.Struct(">" + "".join(FORMATS[each.kind] for each in fields))
        values = [self._variable() for _ in fields]
        self.add(f"{', '.join(values)}, = {self._constant(layout.unpack_from)}(body, offset)")
        self.add(f"offset += {layout.size}")
        return values

    def _value(self, field: Field) -> str:
        if field.listed:
            return self._list(field)
        if field.kind in self._form.structs:
            return self._inner_struct(field)
        if field.kind == "uuid":
            value = self._variable()
            self.add(f"{value} = body[offset : offset + {UUID_BYTES}]")
            self.add(f"{value} = None if {value} == NO_UUID else UUID(bytes={value})")
            self.add(f"offset += {UUID_BYTES}")
            return value
        if field.kind in FORMATS:
            return self._numbers([field])[0]
        return self._sized(field)

    def _sized(self, field: Field) -> str:
        """A string or bytes, after the length."""
        value, size = self._variable(), self._length(field.kind == "string")
        self._unless_null(field, value, size)
        self.add(f"if offset + {size} > limit:")
        self.add(f"{_STEP}refuse({field.name!r}, {size}, 'bytes', limit - offset)")
        decode = ""
        if field.kind == "string":
            decode = ".decode()"
            self.add(f"if {size} > {LONGEST_STRING}:")
            self.add(f"{_STEP}refuse_many({field.name!r}, {size}, 'bytes', {LONGEST_STRING})")
        self.add(f"{value} = body[offset : offset + {size}]{decode}")
        self.add(f"offset += {size}")
        self._depth -= 1
        return value

    def _inner_struct(self, field: Field) -> str:
        of = self._form.structs[field.kind]
        if self._form.version not in field.nullable:
            return self.struct(of)
        value = self._variable()
        self.add(f"{value} = None")
        self.add("offset += 1")
        self.add("if body[offset - 1] < 0x80:")
        self._depth += 1
        self.add(f"{value} = {self.struct(of)}")
        self._depth -= 1
        return value

    def _list(self, field: Field) -> str:
        value, count = self._variable(), self._length(short=False)
        least = least_bytes(field, self._form)
        self._unless_null(field, value, count)
        self.add(f"if {count} * {least} > limit - offset:")
        self.add(f"{_STEP}refuse({field.name!r}, {count}, 'elements', limit - offset)")
        if self._tagged or field.kind in FORMATS:
            most = MOST_TAGGED if self._tagged else MOST_NUMBERS
            self.add(f"if {count} > {most}:")
            self.add(f"{_STEP}refuse_many({field.name!r}, {count}, 'elements', {most})")
        if field.kind in FORMATS:
            unpacked = f"unpack(f'>{{{count}}}{FORMATS[field.kind]}', body, offset)"
            wanted = self._with_numbers
            self.add(f"{value} = {f'{unpacked} if {count} else ' if wanted else ''}()")
            self.add(f"offset += {count} * {least}")
        else:
            self._elements(field, value, count)
        self._depth -= 1
        return value

    def _elements(self, field: Field, value: str, count: str) -> None:
        is_struct = field.kind in self._form.structs
        self.add(f"{value} = []")
        self.add(f"for _ in range({count}):")
        self._depth += 1
        if is_struct:
            element = self.struct(self._form.structs[field.kind])
        else:
            element = self._value(field._replace(listed=False, nullable=NONE))
        self.add(
            f"yield {element}" if is_struct and self._in_steps else f"{value}.append({element})"
        )
        if self._rests:
            self.add("yield offset")
        self._depth -= 1
        self.add(f"{value} = tuple({value})")

    def _length(self, short: bool) -> str:
        size = self._variable()
        if self._form.flexible:
            self.add(f"{size} = body[offset] - 1")
            self.add("offset += 1")
            self.add(f"if {size} > 0x7E:")
            self.add(f"{_STEP}{size}, offset = compact_length(body, offset - 1)")
        else:
            self.add(f"{size}, = {'int16' if short else 'int32'}(body, offset)")
            self.add(f"offset += {2 if short else 4}")
        return size

    def _unless_null(self, field: Field, value: str, size: str) -> None:
        """The next step is for a value that is not null. A list that may not be null is empty then:
        some brokers write it so."""
        self.add(f"if {size} < 0:")
        if self._form.version in field.nullable:
            self.add(f"{_STEP}{value} = None")
        else:
            self.add(_STEP + (f"{value} = ()" if field.listed else f"refuse_null({field.name!r})"))
        self.add("else:")
        self._depth += 1

    def _tags(self, of: Struct, values: list[str]) -> None:
        known: dict[int, Read] = {}
        places: dict[int, int] = {}
        for place, field in enumerate(of.fields):
            if field.tag is not None and self._form.version in field.versions:
                inside = _Code(self._form, tagged=True)
                inside.add(f"return {inside._value(field)}, offset")
                known[field.tag] = inside.function(field.name)
                places[field.tag] = place
        self.add("if body[offset]:")
        found = self._variable()
        self.add(f"{_STEP}{found}, offset = tags(body, offset, {self._constant(known)})")
        variables = {tag: self._variable() for tag in places}
        for tag, place in places.items():
            self.add(f"{_STEP}{variables[tag]} = {found}.get({tag}, {values[place]})")
        self.add("else:")
        self.add(f"{_STEP}offset += 1")
        for tag, place in places.items():
            self.add(f"{_STEP}{variables[tag]} = {values[place]}")
            values[place] = variables[tag]

    def _variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def _constant(self, value: Any) -> str:
        if (literal := repr(value)) in _LITERALS:
            return literal
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name


def least_bytes(field: Field, form: Form) -> int:
    """The smallest size of an element of a list."""
    inner = form.structs.get(field.kind)
    if inner is None:
        return _least_of_scalar(field.kind, form.flexible)
    size = 1 if form.flexible else 0
    for each in inner.fields:
        if form.version not in each.versions or each.tag is not None:
            continue
        size += (1 if form.flexible else 4) if each.listed else least_bytes(each, form)
    return max(size, 1)


def _least_of_scalar(kind: str, flexible: bool) -> int:
    if kind in FORMATS:
        return struct.calcsize(">" + FORMATS[kind])
    if kind == "uuid":
        return UUID_BYTES
    return 1 if flexible else 2 if kind == "string" else 4


def _read_tags(body: bytes, offset: int, known: Mapping[int, Read]) -> tuple[dict[int, Any], int]:
    """The known tagged fields of a struct, by tag."""
    found: dict[int, Any] = {}
    count, offset = read_varint(body, offset)
    if count * 2 > len(body) - offset:
        _refuse("tagged fields", count, "elements", len(body) - offset)
    if count > MOST_TAGS:
        _refuse_many("tagged fields", count, "elements", MOST_TAGS)
    for _ in range(count):
        tag, offset = read_varint(body, offset)
        size, offset = read_varint(body, offset)
        end = offset + size
        if end > len(body):
            _refuse("a tagged field", size, "bytes", len(body) - offset)
        if tag in known:
            found[tag], _ = known[tag](body, offset)
        offset = end
    return found, offset


def skip_tags(body: bytes, offset: int) -> int:
    """The offset after tagged fields of which none is known."""
    return _read_tags(body, offset, {})[1]


def compact_length(body: bytes, offset: int) -> tuple[int, int]:
    """The length of a list, of bytes or of a string, and the offset after it; -1: null."""
    length, offset = read_varint(body, offset)
    return length - 1, offset


def read_varint(body: bytes, offset: int) -> tuple[int, int]:
    """An unsigned varint, and the offset after it."""
    value = shift = 0
    for byte in body[offset : offset + _LONGEST_VARINT]:
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
    raise ProtocolError("a length does not end")


def _refuse(name: str, announced: int, what: str, left: int) -> None:
    raise ProtocolError(
        f"{name} announces {announced} {what}, but only {max(left, 0)} bytes follow"
    )


def _refuse_many(name: str, announced: int, what: str, most: int) -> None:
    raise ProtocolError(f"{name} announces {announced} {what}; at most {most} are read")


def _refuse_null(name: str) -> None:
    raise ProtocolError(f"{name} can't be null")


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
        raise UnsupportedVersionError(f"a string of {size} bytes, not of at most {_LONGEST_TEXT}")
    return size.to_bytes(2 if short else 4, "big", signed=True)


def text(value: str, flexible: bool) -> bytes:
    """A string with its length in front."""
    encoded = value.encode()
    return length(flexible, len(encoded), short=True) + encoded
