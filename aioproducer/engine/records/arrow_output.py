"""Records that were read as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from aioproducer.engine.records.acceleration import ParsedRecords, arrow_buffers
from aioproducer.errors import MissingExtraError


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
