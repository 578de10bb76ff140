"""Encoders of columns: made where a query is planned, pickled, and used where its rows are.

The choice between the compiled encoders of rows and their references in Python is made here, once.
``AIOPRODUCER_PURE_PYTHON=1`` in the environment forces the references.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from aioproducer.engine.columnar.layout import Layout, laid_out
from aioproducer.engine.columnar.plan import Node
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.errors import SerializationError
from aioproducer.foundation.compiled import has_loops

ACCELERATED = False
"""True if the compiled encoders are in use."""

if has_loops(__package__):
    # As in records/acceleration.py: no compiler, or compiled modules of other sources.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            from aioproducer.engine.columnar._speedups import avro_rows, json_rows, protobuf_rows

        ACCELERATED = True
    except (ImportError, TypeError, ValueError, RuntimeWarning):
        pass

if not ACCELERATED:
    from aioproducer.engine.columnar.avro_rows import avro_rows
    from aioproducer.engine.columnar.json_rows import json_rows
    from aioproducer.engine.columnar.protobuf_rows import protobuf_rows


Format = Literal["avro", "json", "protobuf"]
_ROWS: Final[dict[Format, Callable[[Layout, int, bytes], Any]]] = {
    "avro": avro_rows,
    "json": json_rows,
    "protobuf": protobuf_rows,
}


class RowEncoder(Protocol):
    """Turns a column into one record a row. It can be pickled."""

    def encode(self, column: Any) -> Any:
        """A binary array (large_binary from 2 GiB on) of the records of a ``pyarrow.Array``.

        A row that is null stays null. A ChunkedArray gives a ChunkedArray. Raises
        SerializationError, which names the row and the field, for a value that does not fit.
        """


@dataclass(frozen=True, slots=True)
class ColumnEncoder:
    """The encoder of a plan: see :class:`RowEncoder`."""

    format: Format
    plan: Node
    prefix: bytes
    """Before each record: the wire format of the registry."""

    def encode(self, column: Any) -> Any:
        """See :meth:`RowEncoder.encode`."""
        arrow = imported_pyarrow()
        if not isinstance(column, arrow.ChunkedArray):
            return self._encoded(column)
        chunks = [self._encoded(each) for each in column.chunks]
        kinds = {each.type for each in chunks}
        if len(kinds) > 1:
            chunks = [each.cast(arrow.large_binary()) for each in chunks]
        return arrow.chunked_array(chunks, None if kinds else arrow.binary())

    def _encoded(self, array: Any) -> Any:
        arrow = imported_pyarrow()
        try:
            array.validate(full=not ACCELERATED)  # the compiled encoders check what they read
            return _ROWS[self.format](laid_out(self.plan, array), len(array), self.prefix)
        except (arrow.ArrowInvalid, arrow.ArrowIndexError) as error:
            raise SerializationError(
                f"the column {self.plan.path!r} is not a valid array of Arrow: {error}"
            ) from error
