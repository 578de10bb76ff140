"""Arrow columns as records, and records that were read as Arrow columns.

Columns that are sent are read without an import of pyarrow: a program that has them has imported
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from aioproducer.engine.records.acceleration import (
    BinaryColumn,
    HeadersColumn,
    IntColumn,
    ParsedRecords,
    arrow_buffers,
    partitions_of_keys,
)
from aioproducer.engine.records.columns import Columns
from aioproducer.errors import MissingExtraError, SerializationError

_BYTES: Final = "binary, large_binary, string, large_string or null"
_TAKEN: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "partition": "int32",
    "timestamp": "timestamp, or int64 with milliseconds since the epoch",
    "headers": "list or large_list of struct<key: string, value: binary>",
    "offset": "int64, which is not sent",
}
"""The allowed columns. ``offset`` is there because records that were read have one."""


def is_arrow(values: Any) -> bool:
    """True if it is a RecordBatch, Table, Array or ChunkedArray of pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(
        values, (pyarrow.RecordBatch, pyarrow.Table, pyarrow.Array, pyarrow.ChunkedArray)
    )


def read_columns(values: Any) -> list[Columns]:
    """The records, without a copy of their bytes: see ``send_many()`` for the columns.

    Raises SerializationError, which names the column, its type and the allowed types.
    """
    pyarrow = sys.modules["pyarrow"]
    if isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        values = pyarrow.table({"value": values})
    _check_schema(pyarrow, values.schema)
    batches = values.to_batches() if isinstance(values, pyarrow.Table) else [values]
    try:
        return [_read_batch(pyarrow, batch) for batch in batches if len(batch)]
    except pyarrow.ArrowInvalid as error:
        raise SerializationError(f"these columns can't be read: {error}") from error


def murmur2_partitions(keys: Any, count: int) -> Any:
    """The partition among ``count`` of each key of an Array, as int32; null if there is no key.

    See :func:`~aioproducer.engine.partitioning.murmur2_partition`, which does it for one key.
    """
    pyarrow = sys.modules["pyarrow"]
    partitions = partitions_of_keys(_binary_column(pyarrow, keys), count)
    buffers = [keys.is_valid().buffers()[1], pyarrow.py_buffer(partitions)]
    return pyarrow.Array.from_buffers(pyarrow.int32(), len(keys), buffers)


def _check_schema(pyarrow: Any, schema: Any) -> None:
    if "value" not in schema.names:
        raise SerializationError(
            f"send_many() needs a column 'value' ({_BYTES}); there are {schema.names}"
        )
    for column in schema:
        if column.name not in _TAKEN:
            raise SerializationError(
                f"send_many() does not know the column {column.name!r} (of type {column.type}); "
                f"it takes {', '.join(map(repr, _TAKEN))}"
            )
        if schema.names.count(column.name) > 1:
            raise SerializationError(f"there is more than one column {column.name!r}")
        if not _CHECKS[column.name](pyarrow, column.type):
            raise SerializationError(
                f"the column {column.name!r} is of type {column.type}; send_many() takes "
                f"{_TAKEN[column.name]}: cast it"
            )


def _holds_bytes(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_null(kind)
    )


def _holds_headers(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    struct = kind.value_type
    return (
        types.is_struct(struct)
        and sorted(field.name for field in struct) == ["key", "value"]
        and (types.is_string(struct["key"].type) or types.is_large_string(struct["key"].type))
        and _holds_bytes(pyarrow, struct["value"].type)
    )


_CHECKS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "value": _holds_bytes,
    "key": _holds_bytes,
    "partition": lambda pyarrow, kind: kind == pyarrow.int32(),
    "timestamp": lambda pyarrow, kind: pyarrow.types.is_timestamp(kind) or kind == pyarrow.int64(),
    "headers": _holds_headers,
    "offset": lambda pyarrow, kind: kind == pyarrow.int64(),
}


def _read_batch(pyarrow: Any, batch: Any) -> Columns:
    columns = {name: batch.column(name) for name in batch.schema.names}
    key, partition = columns.get("key"), columns.get("partition")
    timestamp, headers = columns.get("timestamp"), columns.get("headers")
    return Columns(
        _binary_column(pyarrow, columns["value"]),
        None if key is None else _binary_column(pyarrow, key),
        None if partition is None else _int_column(partition, wide=False),
        None if timestamp is None else _timestamps(pyarrow, timestamp),
        None if headers is None else _headers_column(pyarrow, headers),
    )


def _binary_column(pyarrow: Any, column: Any) -> BinaryColumn:
    types = pyarrow.types
    if types.is_null(column.type):
        column = column.cast(pyarrow.binary())
    wide = types.is_large_binary(column.type) or types.is_large_string(column.type)
    validity, offsets, data = column.buffers()
    return BinaryColumn(validity, offsets, data, column.offset, len(column), wide=wide)


def _int_column(column: Any, *, wide: bool) -> IntColumn:
    validity, data = column.buffers()
    return IntColumn(validity, data, column.offset, len(column), wide=wide)


def _timestamps(pyarrow: Any, column: Any) -> IntColumn:
    """The timestamps in milliseconds; finer parts are cut off."""
    if pyarrow.types.is_timestamp(column.type) and column.type.unit != "ms":
        kind = pyarrow.timestamp("ms", column.type.tz)
        column = column.cast(kind, safe=column.type.unit == "s")
    return _int_column(column, wide=True)


def _headers_column(pyarrow: Any, column: Any) -> HeadersColumn:
    validity, offsets, *_ = column.buffers()
    pairs = column.values
    fields = dict(zip((field.name for field in pairs.type), pairs.flatten(), strict=True))
    return HeadersColumn(
        validity,
        offsets,
        _binary_column(pyarrow, fields["key"]),
        _binary_column(pyarrow, fields["value"]),
        column.offset,
        len(column),
        wide=pyarrow.types.is_large_list(column.type),
    )


def imported_pyarrow() -> Any:
    """The module. Raises MissingExtraError if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            "Arrow columns need pyarrow: pip install aioproducer[arrow]"
        ) from error
    return pyarrow


def to_arrow(topic: str, parts: Sequence[ParsedRecords]) -> Any:
    """The records of ``parts`` as one ``pyarrow.RecordBatch``; ``topic`` goes into its metadata."""
    pyarrow = imported_pyarrow()
    columns = arrow_buffers(parts)
    rows = columns.rows
    schema = _schema(pyarrow)

    def array(kind: Any, count: int, *buffers: bytes | None, children: Any = None) -> Any:
        parts = [None if each is None else pyarrow.py_buffer(each) for each in buffers]
        return pyarrow.Array.from_buffers(kind, count, parts, children=children)

    headers = schema.field("headers").type
    item = headers.value_type
    items = columns.header_count
    pairs = [
        array(item.field("key").type, items, *columns.header_key),
        array(item.field("value").type, items, *columns.header_value),
    ]
    arrays = {
        "key": array(schema.field("key").type, rows, *columns.key),
        "value": array(schema.field("value").type, rows, *columns.value),
        "headers": array(
            headers,
            rows,
            None,
            columns.header_offsets,
            children=[array(item, items, None, children=pairs)],
        ),
        "timestamp": array(
            schema.field("timestamp").type, rows, columns.timestamp_validity, columns.timestamp
        ),
        "partition": array(schema.field("partition").type, rows, None, columns.partition),
        "offset": array(schema.field("offset").type, rows, None, columns.offset),
    }
    return pyarrow.RecordBatch.from_arrays(
        [arrays[name] for name in schema.names], schema=schema.with_metadata({"topic": topic})
    )


@cache
def _schema(pyarrow: Any) -> Any:
    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    return pyarrow.schema(
        [
            ("key", pyarrow.binary()),
            ("value", pyarrow.binary()),
            ("headers", pyarrow.list_(header)),
            ("timestamp", pyarrow.timestamp("ms", "UTC")),
            ("partition", pyarrow.int32()),
            ("offset", pyarrow.int64()),
        ]
    )
