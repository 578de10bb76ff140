"""The rows of a DataFrame of Spark Classic come from the JVM in Arrow format.

The executors' JVMs make the Arrow batches, so no Python worker has to run. The methods of the JVM
are those behind ``toArrow()``, which collects all partitions at once, and is no good here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD
from pyspark.serializers import FramedSerializer
from pyspark.sql import DataFrame

from aioproducer.spark.packed_batches import PartitionBatches
from aioproducer.spark.typed_columns import arrow_type

ROWS_PER_BATCH: Final = 512
"""The most rows of a batch. The JVM only limits the rows of a batch, and the driver holds
a batch as a whole."""
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def jvm_batches(df: DataFrame) -> PartitionBatches | None:
    """The batches of ``df``; None: this Spark's JVM does not have the methods.

    Shuffles run in this call. One partition is computed while another is read.
    """
    try:
        java = _arrow_batches(df)
    except Py4JError as error:
        if isinstance(error, Py4JJavaError):
            raise
        return None
    schema = pa.schema(
        [(column.name, arrow_type(column.dataType, column.name)) for column in df.schema.fields]
    )
    rdd: RDD[pa.RecordBatch | None] = RDD(
        java.toJavaRDD(), df.sparkSession.sparkContext, _BatchReader(schema)
    )
    return PartitionBatches(rdd.toLocalIterator(prefetchPartitions=True), rdd.getNumPartitions())


def _arrow_batches(df: Any) -> Any:
    """An RDD of the JVM: byte arrays, each an Arrow batch without its schema."""
    spark = df.sparkSession
    at_most = int(spark.conf.get(_ROWS_PER_BATCH))
    rows_per_batch = min(ROWS_PER_BATCH, at_most) if at_most > 0 else ROWS_PER_BATCH
    # The settings are those of a session of its own. The rows keep those of the DataFrame's.
    session = spark._jsparkSession.newSession()
    session.conf().set(_ROWS_PER_BATCH, str(rows_per_batch))
    session.conf().set(_LARGE_TYPES, "false")
    rows = df._jdf.queryExecution().toRdd()
    return session.internalCreateDataFrame(rows, df._jdf.schema(), False).toArrowBatchRdd()


class _BatchReader(FramedSerializer):
    """Reads the batches of a partition from the stream of ``toLocalIterator()``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def load_stream(self, stream: BinaryIO) -> Iterator[pa.RecordBatch | None]:
        """The batches of a partition, and None at its end."""
        yield from super().load_stream(stream)  # type: ignore[no-untyped-call]
        yield None

    def loads(self, obj: bytes) -> pa.RecordBatch:
        """A batch, without a copy."""
        return pa.ipc.read_record_batch(pa.py_buffer(obj), self._schema)
