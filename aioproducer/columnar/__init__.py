"""Arrow columns as records of Avro, one a row, without a Python object for each row.

An encoder is made once, from a column's type and a schema: what does not fit is said there, by
:class:`~aioproducer.errors.ColumnError`. It can be pickled, and encodes arrays of the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioproducer.columnar.avro_derived import derived_avro_type
from aioproducer.columnar.avro_plan import avro_plan
from aioproducer.columnar.avro_schema import read_avro_schema
from aioproducer.columnar.encoder import ColumnEncoder, RowEncoder
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


__all__ = [
    "ColumnError",
    "RowEncoder",
    "avro_encoder",
    "derived_avro_schema",
]
