"""Arrow columns as records of Avro, JSON or Protocol Buffers, without a Python object for a row.

An encoder is made once, from a column's type and a schema: what does not fit is said there, by
:class:`~aioproducer.errors.ColumnError`. It can be pickled, and encodes arrays of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioproducer.engine.columnar.avro_plan import avro_plan, derived_avro_type
from aioproducer.engine.columnar.avro_schema import read_avro_schema
from aioproducer.engine.columnar.encoder import ColumnEncoder, RowEncoder
from aioproducer.engine.columnar.json_plan import derived_json_type, json_plan
from aioproducer.engine.columnar.protobuf_plan import (
    derived_file,
    message_descriptor,
    protobuf_plan,
)
from aioproducer.errors import ColumnError


def avro_encoder(
    arrow_type: Any,
    schema: Any,
    prefix: bytes = b"",
    named: Mapping[str, Any] | None = None,
    *,
    column: str = "value",
) -> RowEncoder:
    """The encoder of a column of ``arrow_type`` (a ``pyarrow.DataType``) with an Avro ``schema``.

    ``schema`` is JSON text, or the same as dicts and lists; ``named`` has the types that it refers
    to, by their full names. ``prefix`` is written before each record, ``column`` is the name in
    errors.

    Fields are matched by name. A field that the column lacks gets its default. An int becomes a
    long and a float a double where the schema wants it; a timestamp, a time and a decimal get the
    schema's unit or scale. Raises ColumnError if values could be lost, if a field without a default
    is missing, or if the schema lacks a field of the column; ConfigError if the schema is not
    Avro's.
    """
    plan = avro_plan(arrow_type, read_avro_schema(schema, named), column)
    return ColumnEncoder("avro", plan, prefix)


def derived_avro_schema(
    arrow_type: Any, name: str, namespace: str | None = None, *, column: str = "value"
) -> Any:
    """The Avro schema of a column; for a struct the record ``name``.

    A nullable field is the union of null and its type, with the default null. Raises ColumnError if
    Avro has no type for a field, or does not take its name.
    """
    return derived_avro_type(arrow_type, name, namespace or "", column)


def json_encoder(arrow_type: Any, prefix: bytes = b"", *, column: str = "value") -> RowEncoder:
    """The encoder of a column of ``arrow_type`` into JSON, ``prefix`` before each record.

    The forms are those of Spark's ``to_json``: a field that is null is left out, an item that is
    null is ``null``; bytes are base64, decimals numbers with all their digits, dates
    ``2013-07-01``. A timestamp has all its digits, ``2013-07-01T12:30:15.000001Z``, and no zone if
    its column has none. A value that is NaN or infinite is an error. Raises ColumnError for a
    column without a form.
    """
    return ColumnEncoder("json", json_plan(arrow_type, column), prefix)


def derived_json_schema(
    arrow_type: Any, title: str | None = None, *, column: str = "value"
) -> dict[str, Any]:
    """The JSON Schema (draft 7) of the records of :func:`json_encoder`.

    A nullable field is one of null and its type, and is not required. Raises ColumnError for a
    column without a form.
    """
    head = {"$schema": "http://json-schema.org/draft-07/schema#"}
    named = head if title is None else {**head, "title": title}
    return {**named, **derived_json_type(arrow_type, column)}


def protobuf_encoder(
    arrow_type: Any, message: Any, prefix: bytes = b"", *, column: str = "value"
) -> RowEncoder:
    """The encoder of a struct column into messages, ``prefix`` before each record.

    ``message`` is a descriptor of ``google.protobuf``, or a generated class that has one:
    :func:`derived_message` makes that of a column. ``encode()`` needs neither the descriptor nor
    ``protobuf``.

    Fields are matched by name. A null is left out. A timestamp with a time zone is a
    ``google.protobuf.Timestamp``, without one an int64 of microseconds, as a time is; a date is an
    int32 or int64 of days since 1970-01-01, a decimal a string, a text an enum too. Raises
    ColumnError if a column has no field, or if a value could be lost.
    """
    plan = protobuf_plan(arrow_type, getattr(message, "DESCRIPTOR", message), column)
    return ColumnEncoder("protobuf", plan, prefix)


def derived_message(
    arrow_type: Any, name: str, package: str | None = None, *, column: str = "value"
) -> Any:
    """The descriptor of a message of proto3 for a struct column, with the name ``name``.

    A nullable field is ``optional``. The numbers of the fields begin at 1, in the column's order.
    Raises ColumnError for a column without a form, such as a list of lists.
    """
    return message_descriptor(derived_file(arrow_type, name, package or "", column))


__all__ = [
    "ColumnError",
    "RowEncoder",
    "avro_encoder",
    "derived_avro_schema",
    "derived_json_schema",
    "derived_message",
    "json_encoder",
    "protobuf_encoder",
]
