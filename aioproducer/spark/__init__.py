"""Spark: write DataFrames to Kafka, from the executors or the driver, at least or exactly once.

This needs the extra ``aioproducer[spark]``. Spark finds the format ``aioproducer`` automatically,
through the module ``pyspark_aioproducer``. :func:`register` also registers it, and reports what is
written.
"""

from __future__ import annotations

try:
    from pyspark.sql import SparkSession

    from aioproducer.spark.dataframes import encode_columns, repartition_by_key
    from aioproducer.spark.driver import PublishError, publish_dataframe
    from aioproducer.spark.exactly_once import RetriableWriteError, RowsNotWrittenError
    from aioproducer.spark.executors import foreach_batch, publish_partitions, run_stream
    from aioproducer.spark.producer_pool import get_pooled_producer
    from aioproducer.spark.report import (
        PublishProgress,
        WriteReport,
        WrittenBatches,
        reports_accumulator,
        rich_progress,
    )
    from aioproducer.spark.source import KafkaDataSource
except ImportError as error:
    raise ImportError(
        "aioproducer.spark needs PySpark 4.1 or newer, and pyarrow: pip install "
        f"'aioproducer[spark]' ({error})"
    ) from error

__all__ = [
    "KafkaDataSource",
    "PublishError",
    "PublishProgress",
    "RetriableWriteError",
    "RowsNotWrittenError",
    "WriteReport",
    "WrittenBatches",
    "encode_columns",
    "foreach_batch",
    "get_pooled_producer",
    "publish_dataframe",
    "publish_partitions",
    "register",
    "repartition_by_key",
    "rich_progress",
    "run_stream",
]


def register(spark: SparkSession) -> WrittenBatches:
    """Register ``format("aioproducer")`` with ``spark``. Returns reports of its streams' writes.

    ::

        written = aioproducer.spark.register(spark)
        query = rows.writeStream.format("aioproducer")...start()
        written[query.id, query.lastProgress["batchId"]].ranges

    Spark Connect provides no reports.
    """
    written = reports_accumulator(spark)
    # A class that Spark can't import is sent to it with its attributes.
    source = type("RegisteredSource", (KafkaDataSource,), {"written": written})
    spark.dataSource.register(source)
    return WrittenBatches(written)
