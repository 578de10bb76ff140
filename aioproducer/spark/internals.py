"""Everything of PySpark that is not part of its public API, and the methods of Spark's JVM.

Another version of Spark may lack any of it, so no other module may use such names, and
``tests/spark/test_internals.py`` checks each of them in each version that it runs with. Without a
method of the JVM, Python workers do its work, as they do with Spark Connect, which has no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, BinaryIO, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core.rdd import RDD
from pyspark.serializers import FramedSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import octet_length
from pyspark.sql.pandas.types import to_arrow_type

from aioproducer.spark.packed_batches import PartitionBatches

__all__ = [
    "BATCH_PROPERTY",
    "HIDE_TRACEBACK",
    "QUERY_PROPERTY",
    "jvm_batches",
    "jvm_murmur2",
    "to_arrow_type",
]

BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""The local property with the number of the micro-batch."""
QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""The local property with the id of the streaming query."""
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""The variable of a worker process whose error Spark shows without a traceback. Source:
``handle_worker_exception()`` of ``pyspark.util``."""


# --- rows of a DataFrame, from the JVM ---------------------------------------------------------

ROWS_PER_BATCH: Final = 512
"""The most rows of a batch. The JVM only limits the rows of a batch, and the driver holds
a batch as a whole."""
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def jvm_batches(df: DataFrame, schema: pa.Schema) -> PartitionBatches | None:
    """The Arrow batches of ``df`` with its ``schema``; None: this Spark's JVM lacks the methods.

    The executors' JVMs make the batches, so no Python worker has to run. Shuffles run in this call.
    One partition is computed while another is read. The methods of the JVM are those behind
    ``toArrow()``, which collects all partitions at once, and is no good here.
    """
    try:
        java = _arrow_batches(df)
    except Py4JError as error:
        if isinstance(error, Py4JJavaError):
            raise
        return None
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


# --- Kafka's hash of keys, in the JVM ----------------------------------------------------------

_HASH: Final = "org.apache.commons.codec.digest.MurmurHash2"
"""Spark comes with Commons Codec. This class has the algorithm and the seed of Kafka's
``Utils.murmur2``."""
_KNOWN: Final = (b"foobar", -790332482)
"""A key and its hash. Source: Kafka's ``UtilsTest.testMurmur2``."""


def jvm_murmur2(spark: SparkSession, key: Column) -> Column | None:
    """The hash of a binary column as an int, null for a null; None: this Spark can't compute it."""
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    try:
        if not _is_kafkas(attrgetter(_HASH)(context._jvm)):
            return None
        return _static_call(context._jvm, [key, octet_length(key)])
    except (Py4JError, TypeError, ImportError):  # a class that does not exist can't be called
        return None


def _is_kafkas(java_class: Any) -> bool:
    key, hashed = _KNOWN
    return bool(java_class.hash32(key, len(key)) == hashed)


def _static_call(jvm: Any, arguments: list[Any]) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    sql = jvm.org.apache.spark.sql
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    call = sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(_HASH),
        sql.types.DataType.fromDDL("int"),
        "hash32",
        to_seq([sql.classic.ExpressionUtils.expression(each._jc) for each in arguments]),
        to_seq([]),  # the types are those of the arguments
        True,  # a null has no hash,
        True,  # and nothing else is null
        True,  # deterministic
        jvm.scala.Option.empty(),
    )
    return ClassicColumn(sql.classic.ExpressionUtils.column(call))
