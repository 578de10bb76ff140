"""Protobuf schemas: descriptors as registries keep them, and the ways to the messages in them.

A registry has a schema as the text of a ``.proto`` file, or as a file's descriptor in base64, as
Confluent's clients for Python and Go register it. A message is found by its indexes: its place
among the messages of the file, then among the messages within that one. The entry of a map counts
where the schema lists it as a message: a descriptor does, a text with ``map<…>`` does not. A
registry that normalizes a descriptor writes ``map<…>`` (Confluent's ``ProtobufSchema``).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aioproducer.errors import SerializationError
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import Schema

Descriptor: TypeAlias = Any
"""A message's descriptor, of the package protobuf."""

_BUILT_IN: Final = ("google/protobuf/", "google/type/", "confluent/")
_TOKEN: Final = (  # a text or a comment that does not end takes the rest: no second look at it
    r'"(?:\\.|[^"\\\n])*"?|'
    r"'(?:\\.|[^'\\\n])*'?|"
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|[A-Za-z_.][\w.]*|[{}();=]"
)
_DEEPEST: Final = 100  # messages within messages


def is_built_in(path: str) -> bool:
    """True for a file that every client has, so that it needs no reference."""
    return path.startswith(_BUILT_IN)


def schema_text(file: Any) -> str:
    """A file's descriptor as Confluent's clients register it."""
    return base64.standard_b64encode(file.serialized_pb).decode("ascii")


def message_indexes(message: Descriptor, *, normalized: bool = False) -> tuple[int, ...]:
    """The way to a message in its file; ``normalized``: the entries of maps do not count."""
    path: list[int] = []
    while message is not None:
        above = message.containing_type
        if above is None:
            siblings = list(message.file.message_types_by_name.values())
        else:
            siblings = [
                each for each in above.nested_types if not (normalized and _is_map_entry(each))
            ]
        path.append([each.full_name for each in siblings].index(message.full_name))
        message = above
    return tuple(reversed(path))


def _is_map_entry(message: Descriptor) -> bool:
    return bool(message.GetOptions().map_entry)


class MessageNames:
    """The full names of the messages in a schema, by their indexes."""

    def __init__(self, schema: Schema, place: str) -> None:
        file = file_of(schema.text)
        try:
            pairs = _of_text(schema.text) if file is None else _of_file(file)
            self._names = dict(pairs)
        except SerializationError as error:
            raise SerializationError(f"{place}: {error}") from error
        self._place = place

    def name(self, indexes: Sequence[int]) -> str:
        """The message at ``indexes``; raises SerializationError if there is none."""
        try:
            return self._names[tuple(indexes)]
        except KeyError:
            raise SerializationError(
                f"{self._place}: it contains no message at the indexes {list(indexes)[:10]}"
            ) from None

    def indexes(self, name: str) -> tuple[int, ...]:
        """The way to the message ``name``; raises SerializationError if there is none."""
        for indexes, each in self._names.items():
            if each == name:
                return indexes
        raise SerializationError(f"{self._place}: it contains no message {name!r}")


def file_of(text: str) -> Any | None:
    """The descriptor that ``text`` is in base64; None: it is the text of a ``.proto`` file."""
    try:
        serialized = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    file = needed("google.protobuf.descriptor_pb2").FileDescriptorProto()
    try:
        file.ParseFromString(serialized)
    except Exception as error:
        raise SerializationError(f"the schema is not a file descriptor: {error}") from error
    return file


def _of_file(file: Any) -> Iterator[tuple[tuple[int, ...], str]]:
    def within(messages: Any, path: tuple[int, ...], above: str) -> Any:
        for index, message in enumerate(messages):
            name = f"{above}.{message.name}" if above else message.name
            yield (*path, index), name
            yield from within(message.nested_type, (*path, index), name)

    return within(file.message_type, (), file.package)  # type: ignore[no-any-return]


def _of_text(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """The messages of a ``.proto`` file: its blocks, without a look at their fields."""
    tokens = [each for each in re.findall(_TOKEN, text, re.DOTALL) if each[0] not in "\"'/"]
    package = ""
    blocks: list[tuple[str, tuple[int, ...]] | None] = []  # None: no message
    counts: dict[tuple[int, ...], int] = {}
    for number, token in enumerate(tokens):
        before = tokens[max(0, number - 2) : number]
        if token == "package" and not blocks and number + 1 < len(tokens):
            package = tokens[number + 1]
        elif token == "{":
            if len(blocks) > _DEEPEST:
                raise SerializationError(f"the schema has more than {_DEEPEST} nested blocks")
            if len(before) < 2 or before[0] != "message" or (blocks and blocks[-1] is None):
                blocks.append(None)
                continue
            above, path = (blocks[-1] if blocks else None) or (package, ())
            index = counts.get(path, 0)
            counts[path] = index + 1
            name = f"{above}.{before[1]}" if above else before[1]
            blocks.append((name, (*path, index)))
            yield (*path, index), name
        elif token == "}" and blocks:
            blocks.pop()


def message_class(schema: Schema, named: Mapping[str, Schema], name: str, place: str) -> Any:
    """A class for the message ``name`` of a schema, made from its descriptor.

    Raises:
        SerializationError: the registry has the schema as text, or a file that it imports lacks.
    """
    pool = needed("google.protobuf.descriptor_pool").DescriptorPool()
    try:
        for path, text in (*((path, each.text) for path, each in named.items()), ("", schema.text)):
            file = file_of(text)
            if file is None:
                raise SerializationError(
                    "the registry stores it as the text of a .proto file, so message_type is "
                    "required"
                )
            file.name = path or "the schema itself"
            _add_built_in(pool, file.dependency, set())
            pool.Add(file)
        found = pool.FindMessageTypeByName(name)
        return needed("google.protobuf.message_factory").GetMessageClass(found)
    except SerializationError as error:
        raise SerializationError(f"{place}: {error}") from error
    except Exception as error:  # the pool's errors are TypeErrors and KeyErrors
        raise SerializationError(
            f"{place}: the message {name!r} can't be created from the schema: {str(error)[:300]}"
        ) from error


def _add_built_in(pool: Any, paths: Sequence[str], added: set[str]) -> None:
    """Add the files of ``paths`` that every client has, and those that they import."""
    for path in paths:
        match = re.fullmatch(r"(google/(?:protobuf|type)/[a-z_]+)\.proto", path)
        if match is None or path in added:
            continue
        added.add(path)
        module = __import__(f"{match[1].replace('/', '.')}_pb2", fromlist=["DESCRIPTOR"])
        file = module.DESCRIPTOR
        _add_built_in(pool, [each.name for each in file.dependencies], added)
        pool.AddSerializedFile(file.serialized_pb)
