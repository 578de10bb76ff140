"""Keys and values of rows become records of a format, column by column. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from aioproducer.errors import ConfigError, SerializationError
from aioproducer.spark.formats import Column, Format

if TYPE_CHECKING:
    from aioproducer.engine.columnar import RowEncoder

ANY_TOPIC: Final = ""
"""The topic of a schema that serves all topics."""


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The schema of a column's records, and the bytes before each of them. It pickles."""

    format: Format
    text: str = ""
    prefix: bytes = b""
    """The registry's id of the schema, in the form that its serializers write."""
    named: tuple[tuple[str, str], ...] = ()
    """The schemas that ``text`` refers to, by the names of the references."""
    message: str = ""
    """The full name of the message of Protobuf, whose schemas are descriptors in base64."""


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """The encoding of one column. It pickles."""

    column: Column
    schemas: Mapping[str, RecordSchema]
    """The schemas of topics, or of :data:`ANY_TOPIC`."""

    def encoded(self, column: pa.Array, topic: str) -> pa.Array:
        """The records of ``column`` as binary values; a null stays a null.

        Raises:
            SerializationError: a value does not fit the schema, or the topic has no schema.
        """
        schema = self.schemas.get(topic) or self.schemas.get(ANY_TOPIC)
        if schema is None:
            raise SerializationError(
                f"a row names the topic {topic!r}, which is not in the option 'topics': "
                f"{', '.join(self.schemas)}"
            )
        try:
            return encoder(schema, column.type, self.column).encode(column)
        except SerializationError as error:
            raise SerializationError(f"a row for topic {topic!r}: {error}") from error


@lru_cache(maxsize=64)
def encoder(schema: RecordSchema, kind: pa.DataType, column: Column) -> RowEncoder:
    """The encoder for columns of the type ``kind``. A process makes it once.

    Raises:
        ColumnError: a part of the type does not fit the schema, with its path.
        ConfigError: the schema can't be used.
    """
    # Tasks without typed columns have no use for these modules.
    from aioproducer.engine.columnar import avro_encoder, json_encoder, protobuf_encoder

    if schema.format is Format.JSON:
        return json_encoder(kind, schema.prefix, column=column)
    if schema.format is Format.PROTOBUF:
        message = _message(schema)
        return protobuf_encoder(kind, message, schema.prefix, column=column)
    named = dict(schema.named)
    return avro_encoder(kind, schema.text, schema.prefix, named, column=column)


def _message(schema: RecordSchema) -> Any:
    from aioproducer.schema_registry.model import Schema
    from aioproducer.schema_registry.protobuf.schema import message_class

    named = {path: Schema(text, "PROTOBUF") for path, text in schema.named}
    try:
        made = message_class(Schema(schema.text, "PROTOBUF"), named, schema.message, "the schema")
    except SerializationError as error:
        raise ConfigError(str(error)) from error
    return made.DESCRIPTOR
