"""A table of messages, read into structs and fields. No I/O.

Source: Kafka's message generator (``org.apache.kafka.message``).
"""

import re
from collections import namedtuple
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

_EMPTY: Final[dict[str, Any]] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
}
_NAMED: Final = {"null": None, "true": True, "false": False}
_VERSIONS: Final = re.compile(r"\d+(-\d+)?")


class Versions(NamedTuple):
    """The versions from the first to the last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ALL: Final = Versions(0, 2**15)
NONE: Final = Versions(1, 0)


class Field(NamedTuple):
    """A field of a struct."""

    name: str
    kind: str
    """Kafka's type, or the name of a struct; that of the elements, if it is a list."""
    listed: bool
    """True: it is a list."""
    nullable: Versions
    versions: Versions
    default: Any
    tag: int | None
    ignorable: bool
    """It may get lost where a version does not have it."""


class Struct:
    """A struct: its fields in their order."""

    def __init__(self, name: str, fields: list[Field]) -> None:
        self.name = name
        """Kafka's name."""
        self.fields = tuple(fields)

    @cached_property
    def kind(self) -> Any:
        """The named tuple that holds the values of the fields."""
        names = [each.name for each in self.fields]
        defaults = [each.default for each in self.fields]
        return namedtuple(self.name, names, defaults=defaults, module=__name__)


class Message(NamedTuple):
    """A request, a response, or data inside of another message."""

    versions: Versions
    flexible: Versions
    """The versions with compact lengths and tagged fields."""
    root: Struct
    structs: dict[str, Struct]
    """By name, the root and those inside."""


def read_table(text: str) -> Iterator[Message]:
    """The messages of a table."""
    for part in text.split("\n\n"):
        first, *rows = part.splitlines()
        name, versions, _, *flexible = first.split()
        spoken = _versions(versions)
        since = NONE if flexible == ["never"] else Versions(int(flexible[-1]), spoken.last)
        structs: dict[str, Struct] = {}
        structs[name] = _read_struct(name, rows, structs)
        yield Message(spoken, since, structs[name], structs)


def _read_struct(name: str, rows: list[str], structs: dict[str, Struct]) -> Struct:
    """The struct with the fields in ``rows``; those inside of it become ``structs``."""
    depth = min(map(_depth, rows), default=0)
    begins = [at for at, row in enumerate(rows) if _depth(row) == depth]
    fields: list[Field] = []
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        label, kind, *words = rows[begin].split()
        kind, null, nullable = kind.partition("?")
        inner = kind.removeprefix("[]")
        if end > begin + 1:
            structs[inner] = _read_struct(inner, rows[begin + 1 : end], structs)
        versions = _versions(words.pop(0)) if words and _VERSIONS.fullmatch(words[0]) else ALL
        said = dict(pairwise(words))
        listed = inner != kind
        fields.append(
            Field(
                label,
                inner,
                listed,
                _versions(nullable) if nullable else versions if null else NONE,
                versions,
                _default(said.get("="), inner, listed, structs),
                int(said["tag"]) if "tag" in said else None,
                "ignorable" in words,
            )
        )
    return Struct(name, fields)


def _default(said: str | None, kind: str, listed: bool, structs: dict[str, Struct]) -> Any:
    if said is not None:
        return _NAMED[said] if said in _NAMED else said if kind == "string" else int(said)
    if listed:
        return ()
    return structs[kind].kind() if kind in structs else _EMPTY[kind]


def _depth(row: str) -> int:
    return len(row) - len(row.lstrip())


def _versions(text: str) -> Versions:
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))
