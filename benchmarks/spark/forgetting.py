"""A sink in Python that forgets its rows. Spark's workers import nothing else with it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


class ForgettingSource(DataSource):
    """A data source that takes rows, and does nothing with them."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "python_noop"

    def writer(self, schema: StructType, overwrite: bool) -> ForgettingWriter:
        """That of a batch."""
        return ForgettingWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> ForgettingStreamWriter:  # noqa: N802
        """That of a micro-batch."""
        return ForgettingStreamWriter()


class _Forgetting:
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Forget the rows of a task."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class ForgettingWriter(_Forgetting, DataSourceArrowWriter):
    """The writer of a batch."""


class ForgettingStreamWriter(_Forgetting, DataSourceStreamArrowWriter):
    """The writer of a micro-batch."""
