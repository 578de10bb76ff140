"""Write a stream to Kafka exactly once, even if processes are killed:

    python examples/spark_streaming.py /tmp/checkpoint [host:port of Kafka]

Kill it (``kill -9``) and start it again with the same checkpoint, as often as you like: a reader of
the topic ``numbers`` with ``isolation.level=read_committed`` sees each number once. Each printed
line is a micro-batch that is safely in Kafka.

Needs ``pip install '.[spark]'`` and Java 17. A task needs Kafka partitions of its own. This example
has one task, so the topic can have any number of partitions.
"""

import os
import sys

from pyspark.sql import SparkSession

from aioproducer.spark import WriteReport, foreach_batch, run_stream


def main(checkpoint: str, bootstrap_servers: str) -> None:
    """Write numbers until the program is stopped."""
    spark = SparkSession.builder.appName("numbers").getOrCreate()
    numbers = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 1_000)
        .option("numPartitions", 1)
        .load()
    )
    publish = foreach_batch(
        on_report=print_report,
        **{
            "kafka.bootstrap.servers": bootstrap_servers,
            "topic": "numbers",
            "delivery.guarantee": "exactly_once",
            "sink.id": "numbers-example",
        },
    )
    writer = (
        numbers.selectExpr("cast(value as string) as value")
        .writeStream.foreachBatch(publish)
        .option("checkpointLocation", checkpoint)
    )
    run_stream(writer.start)  # restarts the query if tasks or executors are lost


def print_report(batch: int, report: WriteReport) -> None:
    """Print one line for a micro-batch."""
    print(f"micro-batch {batch}: {report}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use this Python
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "localhost:9092")
