"""The flights of 2013 into Avro, exactly once, on a real Kafka, read back by confluent-kafka."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession
from pyspark.sql.functions import struct

from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from tests.kafka.transactional import committed, topics
from tests.spark.flights import COUNT, deserialized, flights, in_files
from tests.spark.sink import forget_last_commit, make_sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.registry,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]


async def test_the_example(
    transactional: KafkaCluster, registry_server: SchemaRegistryServer, tmp_path: Path
) -> None:
    kafka, log = transactional, tmp_path / "log"
    await topics(kafka, "typed-flights", partitions=6)
    example = [sessions.ROOT / "examples" / "spark_avro.py"]
    with ProcessSupervisor() as supervisor, log.open("wb") as output:
        process = supervisor.start(
            [sys.executable, *example, kafka.bootstrap_servers, registry_server.url],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=sessions.environment(),
        )
        assert process.wait(300) == 0, log.read_text()[-5000:]
    assert f"{COUNT:,} flights are in Kafka:\n" in log.read_text()
    values = await committed(kafka, "typed-flights")
    assert deserialized(values, "typed-flights", registry_server.url) == flights()


async def test_a_stream_whose_last_batch_comes_again(
    spark: SparkSession,
    transactional: KafkaCluster,
    registry_server: SchemaRegistryServer,
    tmp_path: Path,
) -> None:
    sink = await make_sink(transactional)
    sink.options |= {"value.format": "avro", "schema.registry.url": registry_server.url}
    in_files(tmp_path / "flights", 3, 2_000)
    schema = spark.read.csv(
        str(tmp_path / "flights"), header=True, inferSchema=True, nullValue="NA"
    ).schema
    reader = spark.readStream.schema(schema).option("header", True).option("nullValue", "NA")
    rows = reader.option("maxFilesPerTrigger", 1).csv(str(tmp_path / "flights"))
    typed = rows.select(struct("*").alias("value")).coalesce(4)
    sink.stream(typed, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    sink.stream(typed, tmp_path / "checkpoint")
    values = await committed(transactional, sink.topic)
    assert deserialized(values, sink.topic, registry_server.url) == flights(6_000)
    assert await sink.marker() == 3
    client = SchemaRegistryClient({"url": registry_server.url})
    assert client.get_versions(f"{sink.topic}-value") == [1]
