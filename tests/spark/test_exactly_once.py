"""Writes that are one transaction, on a real Kafka with both versions of the protocol."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, raise_error

from aioproducer import Admin, Reader, sync
from aioproducer.engine.partitioning import murmur2_partition
from aioproducer.errors import IllegalStateError, ProducerError
from aioproducer.spark import (
    RetriableWriteError,
    RowsNotWrittenError,
    foreach_batch,
    publish_partitions,
    register,
    repartition_by_key,
    run_stream,
)
from aioproducer.spark.exactly_once import Batch, TaskOutcome, TaskPartitions, abort, begin, commit
from aioproducer.spark.plan import plan_write
from aioproducer.spark.report import WriteReport
from aioproducer.spark.task import BATCH, RowWriter
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import nothing_is_open, read, topics, visible
from tests.spark.sink import (
    Sink,
    add_file,
    for_each_batch,
    forget_last_commit,
    make_sink,
    numbers,
    numbers_in_files,
    until_written,
)
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
async def sink(transactional: KafkaCluster) -> Sink:
    return await make_sink(transactional)


async def test_a_batch_write_is_there_as_a_whole(spark: SparkSession, sink: Sink) -> None:
    sink.write(numbers(spark, 10_000))
    assert await sink.committed() == list(range(10_000))
    assert await sink.marker() is None
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    assert sum(1 for log in logs.values() if log) == 3, "each task has a partition of its own"


async def test_of_a_batch_write_that_fails_nothing_is_visible(
    spark: SparkSession, sink: Sink, protocol: int
) -> None:
    broken = numbers(spark, 10_000).selectExpr(
        "if(value = '9999', raise_error('broken row'), value) as value"
    )
    with pytest.raises(PySparkException, match="broken row"):
        sink.write(broken)
    if protocol == 2:
        # by itself: its own time, five minutes, is not waited for
        await until(lambda: nothing_is_open(sink.cluster, sink.topic), "it is aborted")
    assert await sink.left_by_a_failure() == []
    sink.write(numbers(spark, 100))
    assert await sink.committed() == list(range(100))


async def test_a_batch_write_with_a_number_is_written_once(spark: SparkSession, sink: Sink) -> None:
    for batch in (20261121, 20261121, 20261122):
        sink.write(numbers(spark, 100), **{"sink.batch.id": batch})
    with pytest.raises(PySparkException, match="up to 20261122, and this is batch 20261121"):
        sink.write(numbers(spark, 100), **{"sink.batch.id": 20261121})
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
        StreamingQueryException, match=r"belongs to the streaming query .* was deleted or moved"
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
    with pytest.raises(StreamingQueryException, match="batch 2 did not pass this sink"):
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
        for_each_batch(rows, publish, tmp_path / "checkpoint")

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
    assert await sink.left_by_a_failure() == list(range(1_000))


async def test_keyed_rows_land_where_the_java_client_puts_them(
    spark: SparkSession, sink: Sink
) -> None:
    keyed = spark.range(2_000).selectExpr(
        "concat('key-', id) as key", "cast(id as string) as value"
    )
    sink.write(repartition_by_key(keyed, partitions=4, tasks=3))
    assert await sink.committed() == list(range(2_000))
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for (_, partition), values in logs.items():
        assert values
        assert all(murmur2_partition(b"key-" + value, 4) == partition for value in values)


async def test_keyed_rows_that_share_partitions_are_refused(
    spark: SparkSession, sink: Sink
) -> None:
    keyed = spark.range(0, 2_000, numPartitions=2).selectExpr("'same' as key", "'x' as value")
    assert "repartition_by_key()" in sink.why_refused(keyed)
    assert await sink.left_by_a_failure() == []


async def test_dead_letters_are_in_the_transaction_of_their_batch(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    """A micro-batch that fails and comes again writes neither its rows nor its letters twice."""
    failed = f"{sink.topic}-failed"
    await topics(sink.cluster, failed, partitions=4)
    sink.options["errors.deadletterqueue.topic.name"] = failed
    rows = numbers_in_files(spark, tmp_path / "in", files=3).selectExpr(
        "value as key", "if(value % 10 = 3, repeat('x', 2000000), value) as value"
    )
    rows = rows.coalesce(1)
    sink.stream(rows, tmp_path / "checkpoint")
    broken = rows.selectExpr("key", "if(key = '160', raise_error('broken row'), value) as value")
    add_file(tmp_path / "in", range(150, 200))
    with pytest.raises(StreamingQueryException, match="broken row"):
        sink.stream(broken, tmp_path / "checkpoint")
    sink.stream(rows, tmp_path / "checkpoint")
    bad = list(range(3, 200, 10))
    assert await sink.committed() == [each for each in range(200) if each not in bad]
    servers = sink.cluster.bootstrap_servers
    options: dict[str, Any] = {"isolation_level": "read_committed", "end": "end"}
    async with Reader(failed, bootstrap_servers=servers, **options) as reader:
        kept = [(int(each.key or b""), dict(each.headers)[BATCH] or b"") async for each in reader]
    assert sorted(number for number, _ in kept) == bad
    files = {number // 50: batch for number, batch in kept}
    assert sorted(files.values()) == [b"0", b"1", b"2", b"3"]
    assert {(number, files[number // 50]) for number, _ in kept} == set(kept)


async def test_more_tasks_than_partitions_are_refused(spark: SparkSession, sink: Sink) -> None:
    assert "df.coalesce(4)" in sink.why_refused(numbers(spark, 1_000, tasks=5))
    assert await sink.left_by_a_failure() == []


async def test_a_timeout_above_that_of_the_brokers_is_refused_at_planning(
    spark: SparkSession, sink: Sink
) -> None:
    with pytest.raises(PySparkException, match=r"transaction\.max\.timeout\.ms") as caught:
        sink.write(numbers(spark, 10), **{"kafka.transaction.timeout.ms": 3_600_000})
    assert f"sink.id 'sink-of-{sink.topic}': the transaction could not begin" in str(caught.value)
    assert "Could not serialize" not in str(caught.value)


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
    assert all(report.bytes > 100 for report in written.values())
    assert all(0 < report.commit_seconds < 60 for report in written.values())
    assert await sink.committed() == list(range(100))
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for place, there in written[query.id, 1].ranges.items():
        assert there.count == 50
        assert len(logs[place]) == 50


async def test_a_topic_that_is_deleted_under_a_query_is_noticed(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    """Brokers delete the marker with it, and create the topic again."""
    rows = numbers_in_files(spark, tmp_path / "rows", files=1)
    sink.stream(rows, tmp_path / "checkpoint")
    assert await sink.marker() == 1
    async with Admin(bootstrap_servers=sink.cluster.bootstrap_servers) as admin:
        await admin.delete_topics(sink.topic)
    add_file(tmp_path / "rows", range(100, 150))
    sink.options["failOnDataLoss"] = True
    with pytest.raises(StreamingQueryException, match="its topic was deleted and created again"):
        sink.stream(rows, tmp_path / "checkpoint")
    sink.options["failOnDataLoss"] = False
    sink.stream(rows, tmp_path / "checkpoint")
    assert await sink.committed() == list(range(100, 150))


async def test_a_commit_without_tasks_moves_the_marker(sink: Sink) -> None:
    plan = plan_write(sink.options, {"value": "string"})
    assert commit(plan, [], 0).records == 0
    assert await sink.marker() == 1
    commit(plan, [], 0)
    assert await sink.marker() == 1, "it was there already"
    assert not begin(plan).is_written(Batch(1, "whoever comes"))


async def test_a_group_that_a_consumer_uses_is_refused(sink: Sink) -> None:
    servers = {"bootstrap.servers": sink.cluster.bootstrap_servers}
    consumer = Consumer(servers | {"group.id": sink.options["sink.id"]})
    consumer.commit(offsets=[TopicPartition(sink.topic, 0, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(IllegalStateError, match=r"an offset of .*-0 that is not a marker \(5\)"):
        begin(plan_write(sink.options, {"value": "string"}))


async def test_a_stream_whose_rows_have_keys_and_name_their_topic(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    sink.options["sink.marker.topic"] = sink.options.pop("topic")
    rows = numbers_in_files(spark, tmp_path / "rows", files=2).selectExpr(
        f"'{sink.topic}' as topic", "if(value % 5 = 0, null, value) as key", "value"
    )
    sink.stream(repartition_by_key(rows, 4), tmp_path / "checkpoint")
    assert await sink.committed() == list(range(100))
    assert await sink.marker() == 2
    logs = read(sink.cluster, (sink.topic,), "read_committed")
    for (_, partition), values in logs.items():
        keyed = [value for value in values if int(value) % 5]
        assert all(murmur2_partition(value, 4) == partition for value in keyed)
        assert len(keyed) < len(values), "those without a key are spread"


async def test_a_micro_batch_without_rows_by_the_users_own_function(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=3)

    def publish(batch: DataFrame, number: int) -> None:
        publish_partitions(batch.limit(0) if number < 2 else batch, **sink.options)

    for_each_batch(rows, publish, tmp_path / "checkpoint")
    assert len(await sink.committed()) == 50
    assert await sink.marker() == 3


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
    with pytest.raises(StreamingQueryException, match="checkpoint is older than the written"):
        sink.stream(rows, tmp_path / "copy")


async def test_micro_batches_by_the_users_own_function(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=2)

    def run() -> None:
        for_each_batch(rows, lambda batch, _: sink.write(batch), tmp_path / "checkpoint")

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
    written = await sink.left_by_a_failure()
    through = await sink.marker()
    assert through is not None
    assert through >= 6
    assert written == list(range(100 * through))


async def test_two_queries_that_use_one_sink_id_are_told(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows, its = numbers_in_files(spark, tmp_path / "rows", files=2), sink.options["sink.id"]
    sink.stream(rows, tmp_path / "one")
    sink.options["sink.id"] = f"other-{sink.topic}"
    sink.stream(rows, tmp_path / "other")
    add_file(tmp_path / "rows", range(10))
    sink.options["sink.id"] = its
    with pytest.raises(StreamingQueryException, match=r"each sink needs its own sink\.id"):
        sink.stream(rows, tmp_path / "other")


def fenced_once(sink: Sink, folder: Path, rows: DataFrame) -> DataFrame:
    """Another one begins with the ``sink.id`` while the rows are read, the first time."""
    plan, done = plan_write(sink.options, {"value": "string"}), folder / "fenced"

    def fence(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not done.exists():
                done.touch()
                begin(plan)
            yield batch

    return rows.mapInArrow(fence, rows.schema)


async def test_a_write_that_another_one_has_ended_says_so(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = fenced_once(sink, tmp_path, numbers(spark, 1_000))
    with pytest.raises(RetriableWriteError, match="another query, job or driver began a write"):
        publish_partitions(rows, **sink.options, **{"sink.attempts": 1})
    assert await sink.left_by_a_failure() == []


def dies_once(folder: Path, rows: DataFrame) -> DataFrame:
    """The Python worker that has the row ``77`` is killed, the first time."""
    done = folder / "died"

    def die(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "77" in batch["value"].to_pylist() and not done.exists():
                done.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return rows.mapInArrow(die, rows.schema)


async def test_a_write_whose_task_is_lost_is_repeated(
    spark: SparkSession, sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = publish_partitions(dies_once(tmp_path, numbers(spark, 1_000)), **sink.options)
    assert report.records == 1_000
    assert "attempt 1 of 4 to write failed" in caplog.text
    assert await sink.committed() == list(range(1_000))


async def test_a_micro_batch_whose_task_is_lost_is_repeated_within_the_query(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    rows = dies_once(tmp_path, numbers_in_files(spark, tmp_path / "rows", files=3))
    for_each_batch(rows, foreach_batch(**sink.options), tmp_path / "checkpoint")
    assert await sink.committed() == list(range(150))
    assert await sink.marker() == 3


async def test_a_query_whose_task_is_lost_is_restarted(
    spark: SparkSession, sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = dies_once(tmp_path, numbers_in_files(spark, tmp_path / "rows", files=3))
    writer = rows.writeStream.format("aioproducer").options(**sink.options)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query = run_stream(writer.start)
    assert query.exception() is None
    assert caplog.text.count("is restarted from its checkpoint") == 1
    assert await sink.committed() == list(range(150))
    assert await sink.marker() == 3


async def test_a_query_that_a_restart_does_not_mend_ends_with_the_first_reason(
    spark: SparkSession, sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = numbers_in_files(spark, tmp_path / "rows", files=1)
    rows = rows.selectExpr("if(value = '7', repeat('x', 2000000), value) as value")
    writer = rows.writeStream.format("aioproducer").options(**sink.options)
    writer = writer.option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException, match=r"task \d: .*TooLargeError") as caught:
        run_stream(writer.start)
    assert "runs again" not in str(caught.value)
    assert "restarted" not in caplog.text
    with pytest.raises(RowsNotWrittenError, match=r"^task \d: .*TooLargeError"):
        publish_partitions(
            numbers(spark, 9).selectExpr("repeat('x', 2000000) as value"), **sink.options
        )
    assert await sink.left_by_a_failure() == []


@pytest.mark.parametrize(("again", "fails"), [((3, 2, 1, 0), True), ((1, 0), False)])
async def test_large_rows_of_a_stage_that_runs_again_are_not_taken_for_a_repetition(
    sink: Sink, again: tuple[int, ...], *, fails: bool
) -> None:
    """Each fills a batch, so only the time of the answer tells attempts apart.

    If the first attempt has written all rows, those of the second one are duplicates.
    """
    plan = plan_write(sink.options, {"value": "binary"})
    begun = begin(plan)

    def attempt(values: Iterable[int]) -> WriteReport:
        rows = [b"%d".ljust(400_000) % value for value in values]
        batch = pa.RecordBatch.from_pydict({"value": pa.array(rows, pa.binary())})
        with sync.Producer(plan.config(), transaction=begun.handle) as producer:
            return RowWriter(producer, plan, TaskPartitions(0, 0, 0)).write([batch])

    assert attempt((0, 1)).records == 2
    if fails:
        with pytest.raises(RowsNotWrittenError, match="DuplicateSequenceNumberError"):
            attempt(again)
        begin(plan)
        assert await sink.committed() == []
    else:
        commit(plan, [TaskOutcome(attempt(again), begun)], None)
        assert await sink.committed() == [0, 1]


@pytest.mark.parametrize(("written", "again"), [(100, 100), (30, 100), (7, 7)])
async def test_a_stage_that_runs_again_is_not_taken_for_a_repetition(
    sink: Sink, written: int, again: int
) -> None:
    plan = plan_write(sink.options, {"value": "binary"})
    begun = begin(plan)

    def attempt(number: int, values: Iterable[int]) -> WriteReport:
        rows = pa.RecordBatch.from_pydict(
            {"value": pa.array([b"%d" % value for value in values], pa.binary())}
        )
        with sync.Producer(plan.config(), transaction=begun.handle) as producer:
            return RowWriter(producer, plan, TaskPartitions(0, 0, number)).write([rows])

    assert attempt(41, range(written)).records == written
    with pytest.raises(RowsNotWrittenError, match="OutOfOrderSequenceNumberError"):
        attempt(43, reversed(range(again)))
    begin(plan)
    assert await sink.committed() == []


async def test_shuffle_files_that_are_lost_in_mid_write_fail_it(
    expendable_spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    """Spark makes them again, and runs the task as if for the first time.

    A Spark without executors then knows itself no more: large results are lost to it.
    """
    spark = expendable_spark
    log, lost = tmp_path / "attempts", tmp_path / "lost"
    folders = shuffle_folders(spark)
    servers, topic = sink.cluster.bootstrap_servers, sink.topic

    def lose_files_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        with log.open("a") as out:
            out.write(f"attempt {context.attemptNumber()}\n")
        for number, batch in enumerate(batches):
            yield batch
            if number == 12 and not lost.exists():
                lost.touch()
                for folder in folders:
                    for file in folder.rglob("shuffle_*.data"):
                        file.unlink(missing_ok=True)
                until_written(servers, topic)

    session = spark.newSession()  # small batches: those on the way are few of all
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    rows = session.range(0, 80_000, 1, 40).selectExpr(
        "lpad(id, 900, '0') as value", "0 as partition"
    )
    shuffled = rows.repartitionById(1, "partition").mapInArrow(lose_files_once, rows.schema)
    with pytest.raises(PySparkException, match=r"OutOfOrderSequenceNumberError|FENCED|EPOCH"):
        sink.write(shuffled)
    assert log.read_text() == "attempt 0\n" * 2
    assert await sink.left_by_a_failure() == []
    sink.write(shuffled)
    assert await sink.committed() == list(range(80_000))


def shuffle_folders(spark: SparkSession) -> list[Path]:
    return [*Path(spark.sparkContext.getConf().get("spark.local.dir", "")).rglob("blockmgr-*")]


async def test_a_write_that_takes_too_long_is_not_committed(sink: Sink) -> None:
    plan = plan_write(sink.options | {"kafka.transaction.timeout.ms": "3000"}, {"value": "string"})
    begun = begin(plan)
    with sync.Producer(plan.config(), transaction=begun.handle) as task:
        task.send(sink.topic, b"1").result(30)
    assert await sink.committed() == [], "the coordinator has aborted it"
    with pytest.raises(ProducerError, match=r"FENCED|EPOCH"):
        commit(plan, [TaskOutcome(WriteReport(1), begun, Batch(0, "q"))], 0)
    assert await sink.committed() == []
    assert await sink.marker() is None
