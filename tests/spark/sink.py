"""A topic that is written to exactly once, and rows that are easy to count."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from aioproducer.spark.exactly_once import begin
from aioproducer.spark.plan import plan_write
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import committed, offset_of, topics


class Sink:
    """A topic of its own with four partitions, and the options to write there exactly once."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.options: dict[str, Any] = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "topic": topic,
            "delivery.guarantee": "exactly_once",
            "sink.id": f"sink-of-{topic}",
        }

    def write(self, df: DataFrame, **more: Any) -> None:
        df.write.format("aioproducer").options(**{**self.options, **more}).mode("append").save()

    def why_refused(self, df: DataFrame) -> str:
        """The error of the task that met it; another one may meet its abort, and be the faster."""
        for _ in range(10):
            with pytest.raises(PySparkException) as caught:
                self.write(df)
            if not re.search("FENCED|EPOCH", text := str(caught.value)):
                break
        return text

    def stream(self, rows: DataFrame, checkpoint: Path) -> None:
        """All that is available, to the end."""
        writer = rows.writeStream.format("aioproducer").options(**self.options)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination(120)
        assert not query.isActive

    async def marker(self) -> int | None:
        return await offset_of(self.cluster, self.options["sink.id"], self.topic)

    async def left_by_a_failure(self) -> list[int]:
        """What is visible after a write that failed, and after the next one has begun.

        With version 1 of the protocol a task that goes on for a moment after the abort opens the
        transaction again.
        """
        begin(plan_write(self.options, {"value": "string"}))
        return await self.committed()

    async def committed(self) -> list[int]:
        return sorted(int(value) for value in await committed(self.cluster, self.topic))


async def make_sink(cluster: KafkaCluster) -> Sink:
    """With a new topic."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await topics(cluster, topic, partitions=4)
    return Sink(cluster, topic)


def numbers(spark: SparkSession, count: int, tasks: int = 3) -> DataFrame:
    return spark.range(0, count, numPartitions=tasks).selectExpr("cast(id as string) as value")


def numbers_in_files(spark: SparkSession, folder: Path, files: int, rows: int = 50) -> DataFrame:
    """A stream of one file for each micro-batch."""
    for number in range(files):
        add_file(folder, range(number * rows, (number + 1) * rows))
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def add_file(folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / uuid.uuid4().hex).write_text("".join(f"{number}\n" for number in numbers))


def for_each_batch(
    rows: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path
) -> None:
    """All that is available, to the end."""
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between Kafka's commit and Spark's own."""
    commits = checkpoint / "commits"
    last = max((each for each in commits.glob("[0-9]*")), key=lambda each: int(each.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink()


def until_written(bootstrap_servers: str, topic: str) -> None:
    """Until there is a record in partition 0, of an open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "none",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        deadline = time.monotonic() + 60
        while consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        consumer.close()
