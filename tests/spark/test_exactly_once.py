"""Writes that are one transaction, on a real Kafka with both versions of the protocol."""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, raise_error

from aioproducer import sync
from aioproducer.errors import ProducerError
from aioproducer.partitioning import murmur2_partition
from aioproducer.spark import foreach_batch, publish_partitions, register, repartition_by_key
from aioproducer.spark.exactly_once import Batch, TaskOutcome, abort, begin, commit
from aioproducer.spark.plan import plan_write
from aioproducer.spark.report import WriteReport
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import committed, nothing_is_open, offset_of, read, topics, visible

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


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

    def stream(self, rows: DataFrame, checkpoint: Path) -> None:
        """All that is available, to the end."""
        writer = rows.writeStream.format("aioproducer").options(**self.options)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination(120)
        assert not query.isActive

    async def marker(self) -> int | None:
        return await offset_of(self.cluster, self.options["sink.id"], self.topic)

    async def committed(self) -> list[int]:
        return sorted(int(value) for value in await committed(self.cluster, self.topic))


@pytest.fixture
async def sink(transactional: KafkaCluster) -> Sink:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    await topics(transactional, topic, partitions=4)
    return Sink(transactional, topic)


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


async def test_a_batch_write_is_there_as_a_whole(spark: SparkSession, sink: Sink) -> None:
    sink.write(numbers(spark, 10_000))
    assert await sink.committed() == list(range(10_000))
    assert await sink.marker() is None
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    assert sum(1 for log in logs.values() if log) == 3, "each task has a partition of its own"


async def test_of_a_batch_write_that_fails_nothing_is_visible(
    spark: SparkSession, sink: Sink
) -> None:
    broken = numbers(spark, 10_000).selectExpr(
        "if(value = '9999', raise_error('broken row'), value) as value"
    )
    with pytest.raises(PySparkException, match="broken row"):
        sink.write(broken)
    assert await nothing_is_open(sink.cluster, sink.topic), "nobody waits for it"
    assert await sink.committed() == []
    sink.write(numbers(spark, 100))
    assert await sink.committed() == list(range(100))


async def test_a_batch_write_with_a_number_is_written_once(spark: SparkSession, sink: Sink) -> None:
    for batch in (20261121, 20261121, 20261122, 20261121):
        sink.write(numbers(spark, 100), **{"sink.batch.id": batch})
    assert await sink.committed() == sorted(2 * list(range(100)))
    assert await sink.marker() == 20261123


async def test_a_stream_that_is_started_again_goes_on(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=3)
    sink.stream(rows, tmp_path / "checkpoint")
    assert await sink.marker() == 3
    add_file(tmp_path / "rows", range(10))
    sink.stream(rows, tmp_path / "checkpoint")
    assert await sink.committed() == sorted([*range(150), *range(10)])


async def test_a_micro_batch_that_comes_again_writes_nothing(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=3)
    sink.stream(rows, tmp_path / "checkpoint")
    forget_last_commit(tmp_path / "checkpoint")
    sink.stream(rows, tmp_path / "checkpoint")
    assert await sink.committed() == list(range(150))
    assert await sink.marker() == 3


async def test_a_new_checkpoint_with_an_old_sink_id_is_noticed(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    sink.stream(rows, tmp_path / "checkpoint")
    with pytest.raises(
        StreamingQueryException, match=r"belongs to the streaming query .* of its own"
    ):
        sink.stream(rows, tmp_path / "other")
    assert await sink.committed() == list(range(100))


async def test_a_batch_that_was_left_out_is_noticed(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    sink.stream(rows, tmp_path / "checkpoint")
    add_file(tmp_path / "rows", range(10))
    sink.options |= {"delivery.guarantee": "at_least_once"}
    sink_id = sink.options.pop("sink.id")
    sink.stream(rows, tmp_path / "checkpoint")
    add_file(tmp_path / "rows", range(10))
    sink.options |= {"delivery.guarantee": "exactly_once", "sink.id": sink_id}
    with pytest.raises(StreamingQueryException, match="all up to batch 1, and this is batch 3"):
        sink.stream(rows, tmp_path / "checkpoint")


async def test_micro_batches_by_foreach_batch(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=3)
    told: dict[int, int] = {}

    def run() -> None:
        publish = foreach_batch(
            on_report=lambda batch, report: told.update({batch: report.records}), **sink.options
        )
        query = (
            rows.writeStream.foreachBatch(publish)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    run()
    assert told == {0: 50, 1: 50, 2: 50}
    forget_last_commit(tmp_path / "checkpoint")
    run()
    assert told == {0: 50, 1: 50, 2: 0}
    assert await sink.committed() == list(range(150))


async def test_partitions_are_published_as_a_whole_and_told(
    spark: SparkSession, sink: Sink
) -> None:
    report = publish_partitions(numbers(spark, 1_000), **sink.options)
    assert report.records == 1_000
    assert sum(there.count for there in report.ranges.values()) == 1_000
    assert await sink.committed() == list(range(1_000))
    broken = numbers(spark, 100).withColumn("value", raise_error(lit("broken row")).cast("string"))
    with pytest.raises(PySparkException, match="broken row"):
        publish_partitions(broken, **sink.options)
    assert await sink.committed() == list(range(1_000))


async def test_keyed_rows_land_where_the_java_client_puts_them(
    spark: SparkSession, sink: Sink
) -> None:
    keyed = spark.range(2_000).selectExpr(
        "concat('key-', id) as key", "cast(id as string) as value"
    )
    sink.write(repartition_by_key(keyed, partitions=4, tasks=3))
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for (_, partition), values in logs.items():
        assert values
        assert all(murmur2_partition(b"key-" + value, 4) == partition for value in values)
    assert await sink.committed() == list(range(2_000))


async def test_keyed_rows_that_share_partitions_are_refused(
    spark: SparkSession, sink: Sink
) -> None:
    keyed = spark.range(0, 2_000, numPartitions=2).selectExpr("'same' as key", "'x' as value")
    with pytest.raises(PySparkException, match=r"repartition_by_key\(\)"):
        sink.write(keyed)
    assert await sink.committed() == []


async def test_more_tasks_than_partitions_are_refused(spark: SparkSession, sink: Sink) -> None:
    with pytest.raises(PythonException, match=r"df\.coalesce\(4\)"):
        sink.write(numbers(spark, 1_000, tasks=5))
    assert await sink.committed() == []


async def test_a_timeout_above_that_of_the_brokers_is_refused_at_planning(
    spark: SparkSession, sink: Sink
) -> None:
    with pytest.raises(PySparkException, match=r"transaction\.max\.timeout\.ms"):
        sink.write(numbers(spark, 10), **{"kafka.transaction.timeout.ms": 3_600_000})


async def test_tasks_of_an_older_plan_are_fenced(sink: Sink) -> None:
    plan = plan_write(sink.options, {"value": "string"})
    old = begin(plan)
    new = begin(plan)
    with (
        sync.Producer(plan.config(), transaction=old.handle) as zombie,
        pytest.raises(ProducerError, match=r"FENCED|EPOCH"),
    ):
        zombie.send(sink.topic, b"-1").result(30)
    with sync.Producer(plan.config(), transaction=new.handle) as producer:
        producer.send(sink.topic, b"1").result(30)
        producer.commit_transaction()
    assert await sink.committed() == [1]


async def test_rows_are_invisible_until_the_commit(sink: Sink) -> None:
    plan = plan_write(sink.options, {"value": "string"})
    begun = begin(plan)
    with sync.Producer(plan.config(), transaction=begun.handle) as task:
        task.send(sink.topic, b"1").result(30)
    assert await visible(sink.cluster, sink.topic) == []
    assert await visible(sink.cluster, sink.topic, isolation="read_uncommitted") == [b"1"]
    begin(plan)
    assert await sink.committed() == []


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between Kafka's commit and Spark's own."""
    commits = checkpoint / "commits"
    last = max((each for each in commits.glob("[0-9]*")), key=lambda each: int(each.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink()


async def test_who_registers_is_told_what_is_written(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    numbers_in_files(spark, tmp_path / "rows", files=2)
    session = spark.newSession()
    written = register(session)
    query = (
        session.readStream.option("maxFilesPerTrigger", 1)
        .text(str(tmp_path / "rows"))
        .writeStream.format("aioproducer")
        .options(**sink.options)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert [report.records for report in written.values()] == [50, 50]
    assert set(written) == {(query.id, 0), (query.id, 1)}
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for place, there in written[query.id, 1].ranges.items():
        assert there.count == 50
        assert len(logs[place]) == 50


async def test_a_commit_without_tasks_moves_the_marker(sink: Sink) -> None:
    plan = plan_write(sink.options, {"value": "string"})
    assert commit(plan, [], 0).records == 0
    assert await sink.marker() == 1
    commit(plan, [], 0)
    assert await sink.marker() == 1, "it was there already"
    assert not begin(plan).is_written(Batch(1, "whoever comes"))


async def test_a_write_without_rows(spark: SparkSession, sink: Sink) -> None:
    sink.write(numbers(spark, 0))
    assert publish_partitions(numbers(spark, 0), **sink.options).records == 0
    assert await sink.committed() == []


async def test_what_was_aborted_is_not_committed(sink: Sink, protocol: int) -> None:
    plan = plan_write(sink.options, {"value": "string"})
    begun = begin(plan)
    with sync.Producer(plan.config(), transaction=begun.handle) as task:
        task.send(sink.topic, b"1").result(30)
    abort(plan, begun)
    assert await sink.committed() == []
    if protocol == 2:  # with 1 nobody aborts whose commit may come
        outcome = TaskOutcome(WriteReport(1), begun, Batch(0, "q"))
        with pytest.raises(ProducerError, match=r"FENCED|EPOCH"):
            commit(plan, [outcome], 0)
    assert await sink.marker() is None


async def test_a_checkpoint_that_is_older_than_what_was_written_is_noticed(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)
    sink.stream(rows, tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    for _ in range(2):
        add_file(tmp_path / "rows", range(10))
    sink.stream(rows, tmp_path / "checkpoint")
    add_file(tmp_path / "rows", range(10))
    with pytest.raises(StreamingQueryException, match="the checkpoint is older than what was"):
        sink.stream(rows, tmp_path / "copy")


async def test_micro_batches_by_the_users_own_function(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)

    def run() -> None:
        query = (
            rows.writeStream.foreachBatch(lambda batch, number: sink.write(batch))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    run()
    forget_last_commit(tmp_path / "checkpoint")
    run()
    assert await sink.committed() == list(range(100))


async def test_a_query_that_is_stopped_at_any_moment_goes_on(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    writer = rows.selectExpr("cast(value as string) as value").writeStream.format("aioproducer")
    writer = writer.options(**sink.options).option("checkpointLocation", str(tmp_path / "c"))
    for moment in range(6):
        query = writer.start()
        while query.lastProgress is None:
            assert query.isActive
            time.sleep(0.02)
        time.sleep(moment * 0.1)
        query.stop()
    begin(plan_write(sink.options, {"value": "string"}))  # ends what the last one left open
    through = await sink.marker()
    assert through is not None
    assert through >= 6
    assert await sink.committed() == list(range(100 * through))
