"""The messages of an API, to be made, encoded and decoded in any version. No I/O."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, final

from aioproducer.engine.protocol.apis import Api
from aioproducer.engine.protocol.codec import (
    Form,
    Read,
    Steps,
    WholeSteps,
    Write,
    reader,
    steps_reader,
    struct_writer,
    whole_steps_reader,
)
from aioproducer.engine.protocol.table import Message, Struct, Versions, read_table
from aioproducer.engine.protocol.tables import TABLES
from aioproducer.errors import UnsupportedVersionError


@final
class Schema:
    """A message: ``schema.MetadataRequest`` and so on are the named tuples of its structs.

    A field that is not given has Kafka's default.
    """

    def __init__(self, message: Message) -> None:
        self._message = message
        self._readers: dict[int, Read] = {}
        self._steps: dict[tuple[int, bool], Steps] = {}
        self._whole_steps: dict[int, WholeSteps] = {}
        self._writers: dict[tuple[str, int], Write] = {}

    def __getattr__(self, struct: str) -> Any:
        if struct.startswith("_"):  # nothing has been set yet: in a copy, say
            raise AttributeError(struct)
        found = self._message.structs.get(struct)
        if found is None:
            raise AttributeError(f"{self.name} has no struct {struct!r}")
        return found.kind

    @property
    def name(self) -> str:
        """Kafka's name, such as ``MetadataRequest``."""
        return self._message.root.name

    @property
    def root(self) -> Struct:
        """The message itself."""
        return self._message.root

    @property
    def versions(self) -> Versions:
        """The versions that are spoken."""
        return self._message.versions

    def flexible(self, version: int) -> bool:
        """True: lengths are compact and structs have tagged fields (KIP-482)."""
        return version in self._message.flexible

    def form(self, version: int) -> Form:
        """The form of the structs. Raises :class:`UnsupportedVersionError`."""
        if version not in self.versions:
            raise UnsupportedVersionError(f"{self.name} has no version {version}")
        return Form(self._message.structs, version, self.flexible(version))

    def encode(self, value: Any, version: int) -> bytes:
        """The bytes of a message, or of a struct in it. Raises :class:`UnsupportedVersionError`."""
        name = type(value).__name__
        write = self._writers.get((name, version))
        if write is None:
            write = struct_writer(self._message.structs[name], self.form(version))
            self._writers[name, version] = write
        parts: list[bytes] = []
        write(parts.append, value)
        return b"".join(parts)

    def decode(self, body: bytes, offset: int, version: int) -> tuple[Any, int]:
        """The message at an offset, and its end. Any error means that it can't be understood."""
        read = self._readers.get(version)
        if read is None:
            read = self._readers[version] = reader(self.root, self.form(version))
        return read(body, offset)

    def decode_in_steps(
        self, body: bytes, offset: int, version: int, *, numbers: bool
    ) -> Generator[Any, None, int]:
        """The structs in lists, each without its own lists of structs, and at last the message.

        Returns the end. ``numbers``: with lists of numbers; else they are empty.
        """
        read = self._steps.get((version, numbers))
        if read is None:
            read = steps_reader(self.root, self.form(version), numbers=numbers)
            self._steps[version, numbers] = read
        return read(body, offset)

    def decode_with_rests(
        self, body: bytes, offset: int, version: int
    ) -> Generator[int, None, tuple[Any, int]]:
        """:meth:`decode` with a step for each element of a list, which yields its end."""
        read = self._whole_steps.get(version)
        if read is None:
            read = whole_steps_reader(self.root, self.form(version))
            self._whole_steps[version] = read
        return read(body, offset)

    def of(self, values: Mapping[str, Any], version: int) -> Any:
        """A message from nested mappings. Fields that the version lacks are left out.

        Raises :class:`TypeError` for a field that no version has.
        """
        return self._struct_of(self.root, values, version)

    def _struct_of(self, struct: Struct, values: Mapping[str, Any], version: int) -> Any:
        structs = self._message.structs
        made = dict(values)
        for field in struct.fields:
            inner = structs.get(field.kind)
            if version not in field.versions:
                made.pop(field.name, None)
            elif inner is not None and (value := made.get(field.name)) is not None:
                made[field.name] = (
                    tuple([self._struct_of(inner, each, version) for each in value])
                    if field.listed
                    else self._struct_of(inner, value, version)
                )
        return struct.kind(**made)


@cache
def request_schema(api: Api) -> Schema:
    """The request of an API."""
    return _schemas(api.name.lower())[0]


@cache
def response_schema(api: Api) -> Schema:
    """The response of an API."""
    return _schemas(api.name.lower())[1]


@cache
def data_schema(name: str) -> Schema:
    """Data inside of other messages, such as ``consumer_protocol_assignment``."""
    return _schemas(name)[0]


@cache
def _schemas(name: str) -> tuple[Schema, ...]:
    return tuple(map(Schema, read_table(TABLES[name])))
