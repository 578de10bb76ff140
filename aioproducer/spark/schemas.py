"""The schemas of typed columns, and their subjects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from aioproducer.engine.columnar import derived_avro_schema, derived_json_schema, derived_message
from aioproducer.errors import ConfigError, SerializationError
from aioproducer.schema_registry.data_contracts import refuse_rules_of_writers
from aioproducer.schema_registry.model import RegisteredSchema, Schema, SchemaType
from aioproducer.schema_registry.protobuf.schema import MessageNames, schema_text
from aioproducer.schema_registry.subjects import subject_name
from aioproducer.schema_registry.wire_format import id_bytes
from aioproducer.spark.avro_names import with_names_of
from aioproducer.spark.encodings import ANY_TOPIC, ColumnEncoding, RecordSchema, encoder
from aioproducer.spark.formats import Column, ColumnFormat, Format
from aioproducer.spark.json_match import check_json_schema
from aioproducer.spark.protobuf_compiler import descriptors

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
