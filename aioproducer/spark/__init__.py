"""Spark: write DataFrames to Kafka, from the executors or from the driver, also exactly once.

This needs the extra ``aioproducer[spark]``. Spark finds the format ``aioproducer`` automatically,
through the module ``pyspark_aioproducer``. :func:`register` also registers it, and reports what is
written.
"""

from __future__ import annotations

try:
    from pyspark.sql import SparkSession

    from aioproducer.spark.driver import PublishError, publish_dataframe
    from aioproducer.spark.encoded_columns import encode_columns
    from aioproducer.spark.executors import foreach_batch, publish_partitions
    from aioproducer.spark.producer_pool import get_pooled_producer
    from aioproducer.spark.progress import PublishProgress, rich_progress
    from aioproducer.spark.repartition import repartition_by_key
    from aioproducer.spark.report import WriteReport
    from aioproducer.spark.source import KafkaDataSource
    from aioproducer.spark.stream_reports import WrittenBatches, reports_accumulator
except ImportError as error:
    raise ImportError(
        "aioproducer.spark needs PySpark 4.1 or newer, and pyarrow: pip install "
        f"'aioproducer[spark]' ({error})"
    ) from error

__all__ = [
    "KafkaDataSource",
    "PublishError",
    "PublishProgress",
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
