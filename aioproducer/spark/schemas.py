"""The schemas of typed columns and their subjects: given, derived, or in a registry.

With a registry they are registered, looked up, or the latest ones. Protobuf schemas become
descriptors, from which tasks make messages without a compiler.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from base64 import standard_b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyarrow as pa

from aioproducer.engine.columnar import derived_avro_schema, derived_json_schema, derived_message
from aioproducer.errors import (
    ConfigError,
    ProducerError,
    SchemaRegistryUnavailableError,
    SerializationError,
)
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.schema_registry import SchemaRegistry
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.model import (
    RegisteredSchema,
    Schema,
    SchemaType,
    refuse_rules_of_writers,
)
from aioproducer.schema_registry.policies import subject_name
from aioproducer.schema_registry.protobuf_schema import MessageNames, file_of, schema_text
from aioproducer.schema_registry.wire_format import id_bytes
from aioproducer.spark.schema_match import check_json_schema, with_names_of
from aioproducer.spark.typed_columns import (
    ANY_TOPIC,
    Column,
    ColumnEncoding,
    ColumnFormat,
    Format,
    FormatOptions,
    RecordSchema,
    encoder,
)

_COMPILER: Final = "grpc_tools"
_SECONDS: Final = 60.0
"""The longest time that a plan waits for a registry, as long as a producer waits by default, and
for the compiler."""
_FILE: Final = "schema.proto"
_PATH: Final = r"[A-Za-z0-9_][\w./-]*\.proto"
"""Paths that are taken for files: none is an option of the compiler, or leads elsewhere."""


def descriptors(text: str, named: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """``text`` and the files that it imports as descriptors in base64.

    A schema that a registry has as text is compiled by ``protoc`` of the package ``grpcio-tools``.
    It blocks.

    Raises:
        ConfigError: the package is not installed, or it refuses the text.
    """
    if all(file_of(each) is not None for each in (text, *named.values())):
        return text, dict(named)
    if find_spec(_COMPILER) is None:
        raise ConfigError(
            "the registry returns the Protobuf schema as text, which a compiler must turn into a "
            "descriptor: pip install grpcio-tools, on the driver"
        )
    path = _FILE
    while path in named:
        path = f"_{path}"
    try:
        compiled = _compiled({**named, path: text})
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the Protobuf schema can't be compiled: {error}") from error
    return compiled[path], {each: compiled[each] for each in named}


def _compiled(files: Mapping[str, str]) -> dict[str, str]:
    """The descriptors of ``files``, texts by their paths."""
    for path in files:
        if not re.fullmatch(_PATH, path) or ".." in path:
            raise ConfigError(
                f"the Protobuf schema imports {path!r}, which is not the path of a file"
            )
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        output = Path(folder, "descriptors")
        _run(f"--proto_path={folder}", f"--descriptor_set_out={output}", *files)
        found = needed("google.protobuf.descriptor_pb2").FileDescriptorSet()
        found.ParseFromString(output.read_bytes())
    return {each.name: standard_b64encode(each.SerializeToString()).decode() for each in found.file}


def _run(*arguments: str) -> None:
    try:
        done = subprocess.run(
            # -P: no module of the working directory takes the compiler's place.
            [sys.executable, "-P", "-m", f"{_COMPILER}.protoc", *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"protoc has not ended within {duration(_SECONDS)}") from None
    if done.returncode:
        raise ConfigError(f"protoc refuses the Protobuf schema: {done.stderr.strip()[:1000]}")


_TYPES: Final[Mapping[Format, SchemaType]] = {
    Format.AVRO: "AVRO",
    Format.JSON: "JSON",
    Format.PROTOBUF: "PROTOBUF",
}


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column with a format."""

    format: ColumnFormat
    kind: pa.DataType
    topics: tuple[str, ...] = (ANY_TOPIC,)
    """The topics, each of which has a schema."""

    @property
    def name(self) -> Column:
        """``key`` or ``value``."""
        return self.format.column

    @property
    def schema_type(self) -> SchemaType:
        """The registry's word for the format."""
        return _TYPES[self.format.format]

    def subject(self, topic: str) -> str:
        """The subject of the schema, by the strategy's rule."""
        name = self.format.record_name or None
        return subject_name(self.format.strategy.value, topic, self.name, name)

    def derived(self, topic: str) -> Schema:
        """The schema of the column's own type.

        Raises:
            ColumnError: a part of the type has no form in the format, with its path.
        """
        namespace, _, name = self._record_name(topic).rpartition(".")
        if self.format.format is Format.PROTOBUF:
            message = derived_message(self.kind, name, namespace or None, column=self.name)
            return Schema(schema_text(message.file), self.schema_type)
        if self.format.format is Format.JSON:
            schema = derived_json_schema(self.kind, name, column=self.name)
        else:
            schema = derived_avro_schema(self.kind, name, namespace or None, column=self.name)
        text = json.dumps(schema)
        return Schema(text, self.schema_type)

    def _record_name(self, topic: str) -> str:
        if self.format.record_name:
            return self.format.record_name
        name = re.sub(r"\W", "_", f"{topic}_{self.name}" if topic else self.name, flags=re.ASCII)
        return f"_{name}" if name[0].isdigit() else name

    def record_schema(
        self, schema: Schema, schema_id: int, references: Mapping[str, Schema]
    ) -> RecordSchema:
        """``schema`` for the encoder, checked: each part of the column has its place there.

        Raises:
            ColumnError: a part of the column, or of the schema, has no place in the other.
            ConfigError: the schema can't be used.
        """
        named = {name: each.text for name, each in references.items()}
        if self.format.format is Format.PROTOBUF:
            made = self._message(schema, schema_id, named)
        elif self.format.format is Format.AVRO:
            text = with_names_of(self.kind, schema.text)
            made = RecordSchema(Format.AVRO, text, id_bytes(schema_id), tuple(named.items()))
        else:
            own = derived_json_schema(self.kind, column=self.name)
            check_json_schema(own, schema.text, self.name)
            made = RecordSchema(Format.JSON, prefix=id_bytes(schema_id))
        encoder(made, self.kind, self.name)
        return made

    def _message(self, schema: Schema, schema_id: int, named: Mapping[str, str]) -> RecordSchema:
        """The first message of a schema of Protobuf, or that of the option ``record.name``."""
        text, others = descriptors(schema.text, named)
        # The indexes are those of the registry's text, which has no messages for entries of maps.
        names = MessageNames(schema, "the schema")
        try:
            name = self.format.record_name or names.name((0,))
            prefix = id_bytes(schema_id, names.indexes(name))
        except SerializationError as error:
            raise ConfigError(str(error)) from error
        return RecordSchema(Format.PROTOBUF, text, prefix, tuple(others.items()), name)


def unregistered(column: TypedColumn) -> ColumnEncoding:
    """The encoding of a column whose records carry no id.

    Raises:
        ColumnError: a part of the column has no form in the format, with its path.
        ConfigError: the column is text already.
    """
    if pa.types.is_string(column.kind) or pa.types.is_binary(column.kind):
        raise ConfigError(
            f"{column.name}.format=json, but the column is a {column.kind}; remove the option "
            f"{column.name}.format to send it unchanged"
        )
    schema = RecordSchema(Format.JSON)
    encoder(schema, column.kind, column.name)
    return ColumnEncoding(column.name, {ANY_TOPIC: schema})


def check_latest(column: TypedColumn, registered: RegisteredSchema, subject: str) -> None:
    """Refuse a schema of another format, and one with rules that nobody here obeys.

    Raises:
        ConfigError: with the subject.
    """
    schema = registered.schema
    if schema.schema_type != column.schema_type:
        raise ConfigError(
            f"the latest schema of {subject!r} has the type {schema.schema_type}, which "
            f"{column.name}.format={column.format.format} can't write"
        )
    try:
        refuse_rules_of_writers(schema, f"subject {subject!r}")
    except SerializationError as error:
        raise ConfigError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Known:
    """A registry, and what this process knows of it."""

    registry: SchemaRegistry
    ids: dict[tuple[str, Schema, bool], int] = field(default_factory=dict)
    """The ids of schemas by their subjects, normalized or not. They never change."""


class Registries:
    """The registries that this process has asked.

    A stream plans each of its micro-batches, mostly in one process. Its registry is asked once, and
    again after a failure; for the latest version every few minutes.
    """

    def __init__(self) -> None:
        self._lock = free_lock()
        self._known: dict[frozenset[tuple[str, str]], Known] = {}

    def known(self, properties: Mapping[str, str]) -> Known:
        """The registry with these properties.

        Raises:
            ConfigError: a property is wrong.
        """
        with self._lock:
            key = frozenset(properties.items())
            if key not in self._known:
                self._known[key] = Known(SchemaRegistry.from_properties(properties))
            return self._known[key]

    def forget(self, properties: Mapping[str, str]) -> None:
        """The next call makes the registry anew: its placeholders may have other values."""
        with self._lock:
            self._known.pop(frozenset(properties.items()), None)


_registries: Final = Registries()


def registered(formats: FormatOptions, columns: Sequence[TypedColumn]) -> list[ColumnEncoding]:
    """The encodings of ``columns``, with the registry's ids of their schemas. It blocks.

    Raises:
        ConfigError: a column does not fit its schema, or a property of the registry is wrong.
        SchemaRegistryError: the registry refuses a schema, or is not there.
    """
    # The calling thread may run an event loop, as a notebook's does.
    with ThreadPoolExecutor(1, "aioproducer-spark-registry") as beside:
        try:
            return beside.submit(asyncio.run, _ask(formats, columns)).result()
        except ProducerError:
            _registries.forget(formats.registry)
            raise


async def _ask(formats: FormatOptions, columns: Sequence[TypedColumn]) -> list[ColumnEncoding]:
    known = _registries.known(formats.registry)
    encodings = []
    try:
        async with asyncio.timeout(_SECONDS) as bound:
            for column in columns:
                schemas = {
                    topic: await _record_schema(known, formats, column, topic)
                    for topic in column.topics
                }
                encodings.append(ColumnEncoding(column.name, schemas))
    except TimeoutError as error:
        if not bound.expired() or isinstance(error, ProducerError):
            raise
        raise SchemaRegistryUnavailableError(
            f"the schema registry has not answered within {duration(_SECONDS)}"
        ) from None
    finally:
        await known.registry.close()
    return encodings


async def _record_schema(
    known: Known, formats: FormatOptions, column: TypedColumn, topic: str
) -> RecordSchema:
    subject = column.subject(topic)
    if formats.use_latest:
        return await _latest(known.registry, column, subject)
    schema = column.derived(topic)
    column.record_schema(schema, 0, {})  # nothing is registered that could not be written
    place = (subject, schema, formats.normalize)
    if place not in known.ids:
        ask = known.registry.register if formats.auto_register else known.registry.lookup
        found = await ask(subject, schema, normalize=formats.normalize)
        known.ids[place] = found.id
    return column.record_schema(schema, known.ids[place], {})


async def _latest(registry: SchemaRegistry, column: TypedColumn, subject: str) -> RecordSchema:
    latest = await registry.latest(subject)
    check_latest(column, latest, subject)
    references = await registry.resolve(latest.schema)
    try:
        return column.record_schema(latest.schema, latest.id, references)
    except ConfigError as error:
        version = "" if latest.version is None else f", version {latest.version}"
        raise type(error)(
            f"the latest schema of {subject!r}{version} (id {latest.id}): {error}"
        ) from error
