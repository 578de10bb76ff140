"""The Arrow types of Spark's columns, as tasks get them. No I/O."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StructType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from aioproducer.errors import ConfigError

_STRUCTS_OF_OTHERS: Final = ("geometry", "geography")
"""Types that travel as a struct of Spark's own; before Spark 4.1 there are none."""


def arrow_type(data_type: DataType, path: str) -> pa.DataType:
    """The Arrow type of a column. The time zone of a task's timestamps, and the size of its
    offsets, may be others.

    Raises:
        ConfigError: it has none, or one that means nothing to others; with the path of the column.
    """
    if isinstance(data_type, UserDefinedType):
        return arrow_type(data_type.sqlType(), path)
    if isinstance(data_type, ArrayType):
        element = arrow_type(data_type.elementType, f"{path}.element")
        return pa.list_(_field("element", element, data_type.containsNull))
    if isinstance(data_type, MapType):
        if isinstance(data_type.keyType, NullType):
            raise _unsupported(data_type, path)
        key = arrow_type(data_type.keyType, f"{path}.key")
        value = arrow_type(data_type.valueType, f"{path}.value")
        return pa.map_(
            pa.field("key", key, nullable=False),
            _field("value", value, data_type.valueContainsNull),
        )
    if isinstance(data_type, StructType):
        return pa.struct(_fields(data_type, path))
    if isinstance(data_type, VariantType) or data_type.typeName() in _STRUCTS_OF_OTHERS:
        raise _unsupported(data_type, path)
    if isinstance(data_type, TimestampType):  # Spark 4.3 wants to know the time zone
        return pa.timestamp("us", tz="UTC")
    try:
        return to_arrow_type(data_type)
    except PySparkException:
        raise _unsupported(data_type, path) from None


def _fields(data_type: StructType, path: str) -> list[pa.Field]:
    names = data_type.fieldNames()
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{path} has two fields with the name {twice!r}")
    return [
        _field(each.name, arrow_type(each.dataType, f"{path}.{each.name}"), each.nullable)
        for each in data_type.fields
    ]


def _field(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    # In Spark, array() is an array of nulls that has none; a field of Arrow is not like that.
    return pa.field(name, kind, nullable=nullable or pa.types.is_null(kind))


def _unsupported(data_type: DataType, path: str) -> ConfigError:
    return ConfigError(
        f"{path} is of type {data_type.simpleString()}, which no format supports; cast it, for "
        "example a variant with to_json()"
    )
