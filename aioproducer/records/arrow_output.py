"""Records that were read as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioproducer.errors import MissingExtraError
from aioproducer.records.parsed_records import BinaryBuffers, ParsedRecords, arrow_buffers


def to_arrow(topic: str, parts: Sequence[ParsedRecords]) -> Any:
    """The records of ``parts`` as one ``pyarrow.RecordBatch``; ``topic`` goes into its metadata."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            "Arrow columns need pyarrow: pip install aioproducer[arrow]"
        ) from error

    columns = arrow_buffers(parts)
    rows = columns.rows

    def binary(count: int, kind: Any, buffers: BinaryBuffers) -> Any:
        return pyarrow.Array.from_buffers(kind, count, _buffers(pyarrow, *buffers))

    items = pyarrow.StructArray.from_arrays(
        [
            binary(columns.header_count, pyarrow.string(), columns.header_key),
            binary(columns.header_count, pyarrow.binary(), columns.header_value),
        ],
        fields=list(_header_type(pyarrow)),
    )
    arrays = [
        binary(rows, pyarrow.binary(), columns.key),
        binary(rows, pyarrow.binary(), columns.value),
        pyarrow.Array.from_buffers(
            pyarrow.list_(_header_type(pyarrow)),
            rows,
            _buffers(pyarrow, None, columns.header_offsets),
            children=[items],
        ),
        pyarrow.Array.from_buffers(
            pyarrow.timestamp("ms", "UTC"),
            rows,
            _buffers(pyarrow, columns.timestamp_validity, columns.timestamp),
        ),
        pyarrow.Array.from_buffers(
            pyarrow.int32(), rows, _buffers(pyarrow, None, columns.partition)
        ),
        pyarrow.Array.from_buffers(pyarrow.int64(), rows, _buffers(pyarrow, None, columns.offset)),
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=_schema(pyarrow, topic))


def _buffers(pyarrow: Any, *buffers: bytes | None) -> list[Any]:
    return [None if each is None else pyarrow.py_buffer(each) for each in buffers]


def _header_type(pyarrow: Any) -> Any:
    return pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])


def _schema(pyarrow: Any, topic: str) -> Any:
    return pyarrow.schema(
        [
            ("key", pyarrow.binary()),
            ("value", pyarrow.binary()),
            ("headers", pyarrow.list_(_header_type(pyarrow))),
            ("timestamp", pyarrow.timestamp("ms", "UTC")),
            ("partition", pyarrow.int32()),
            ("offset", pyarrow.int64()),
        ],
        metadata={"topic": topic},
    )
