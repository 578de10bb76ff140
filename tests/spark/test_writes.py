"""``df.write`` and ``writeStream`` with ``format("aioproducer")``, at least once, read back."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from aioproducer.engine.records.acceleration import is_compiled
from aioproducer.errors import ConfigError
from aioproducer.failed_records import DeadLetter
from aioproducer.model import ConsumerRecord
from aioproducer.spark import (
    foreach_batch,
    publish_partitions,
    register,
    repartition_by_key,
    run_stream,
)
from aioproducer.spark.plan import REDACTED
from aioproducer.testing.mock_cluster import MockCluster
from tests.spark.conftest import EXECUTOR_VARIABLE
from tests.support.read_back import read_topic, values

pytestmark = [pytest.mark.spark, pytest.mark.mock_cluster]


def write(df: DataFrame, cluster: MockCluster, mode: str = "append", **options: Any) -> None:
    writer = df.write.format("aioproducer").mode(mode)
    writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).options(**options).save()


def test_all_columns(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    rows = spark.sql(
        f"""
        select '{topic}' as topic, 'k' as key, binary('v') as value, 2 as partition, 1.5 as extra,
            array(named_struct('key', 'h', 'value', binary('1')),
                  named_struct('key', 'n', 'value', cast(null as binary))) as headers
        union all select '{topic}', null, null, 1, 0, null
        """
    )
    write(rows, cluster)
    full, empty = sorted(read_topic(cluster, topic), key=lambda record: -record.partition)
    assert (full.partition, full.key, full.value) == (2, b"k", b"v")
    assert full.headers == [("h", b"1"), ("n", None)]
    assert (empty.partition, empty.key, empty.value) == (1, None, None)
    assert not empty.headers


def test_rows_of_many_tasks(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    rows = spark.range(0, 20_000, numPartitions=20).selectExpr("cast(id as string) as value")
    write(rows, cluster, topic=topic)
    found = sorted(values(cluster, topic), key=str)
    assert found == sorted(str(number).encode() for number in range(20_000))


def test_rows_of_many_topics(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(40)]
    cluster.create_topics(dict.fromkeys(names, 1))
    rows = spark.range(0, 4_000, numPartitions=1).selectExpr(
        "cast(id as string) as value", f"concat('{topic}-', id % 40) as topic"
    )
    write(rows, cluster)
    for number in (0, 17, 39):
        assert values(cluster, names[number]) == [b"%d" % n for n in range(number, 4_000, 40)]
    one_too_large = rows.selectExpr(
        "if(value = '7', repeat('x', 2000000), value) as value", "topic"
    )
    with pytest.raises(PySparkException, match=rf"1 of 100 rows for topic '{topic}-7'.*TooLarge"):
        write(one_too_large, cluster)


@pytest.mark.parametrize("rows", ["select '1' as value limit 0", "select '1' as value where false"])
def test_no_rows(spark: SparkSession, cluster: MockCluster, topic: str, rows: str) -> None:
    write(spark.sql(rows), cluster, topic=topic)
    assert values(cluster, topic) == []


def test_long_offsets_of_arrow(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    write(session.sql("select 'k' as key, binary('v') as value"), cluster, topic=topic)
    assert values(cluster, topic) == [b"v"]


def test_the_report_has_counts_and_offsets(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    rows = spark.range(1_000).selectExpr("cast(id as string) as value")
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}
    report = publish_partitions(rows, **options)
    assert report.records == 1_000
    assert report.bytes > 3_000
    assert report.compiled is is_compiled(), "of the executors' Python"
    there = read_topic(cluster, topic)
    for place, offsets in report.ranges.items():
        found = [record.offset for record in there if record.partition == place.partition]
        assert (offsets.count, offsets.first, offsets.last) == (len(found), min(found), max(found))
    assert publish_partitions(rows, **options).ranges != report.ranges


def before_tracebacks(error: BaseException) -> str:
    return str(error).partition("Traceback (most recent call last)")[0]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("'k' as key", {}, "Required attribute 'value' not found"),
        ("1 as value", {}, "value attribute unsupported type int. value must be a(n) string or"),
        ("'v' as value", {"topic": None}, "topic option required when no 'topic' attribute"),
        ("'v' as value", {"kafka.acks": "7"}, "acks"),
        ("'v' as value", {"kafka.lingr.ms": "7"}, "linger"),
        ("'v' as value", {"deliveryGuarantee": "exactly_once"}, "mean 'delivery.guarantee'?"),
        ("struct(1) as value", {"valueFormat": "json"}, "did you mean 'value.format'?"),
        ("'v' as value", {"delivery.guarantee": "exactly_once"}, "needs the option 'sink.id'"),
    ],
)
def test_what_is_wrong_is_said_before_any_task(
    spark: SparkSession,
    cluster: MockCluster,
    topic: str,
    columns: str,
    options: dict[str, str | None],
    words: str,
) -> None:
    every = {"topic": topic} | options
    given = {name: value for name, value in every.items() if value is not None}
    with pytest.raises(PySparkException) as caught:
        write(spark.range(1).selectExpr(columns), cluster, **given)
    assert words in before_tracebacks(caught.value)
    assert "Job aborted" not in str(caught.value)


def test_overwriting_is_refused_in_sparks_words(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        write(spark.sql("select '1' as value"), cluster, mode="overwrite", topic=topic)
    assert "Save mode Overwrite not allowed for Kafka" in before_tracebacks(caught.value)


def test_a_row_without_a_topic_fails_its_task(spark: SparkSession, cluster: MockCluster) -> None:
    rows = spark.sql("select cast(null as string) as topic, '1' as value")
    with pytest.raises(PySparkException, match="contains a null topic"):
        write(rows, cluster)


def test_a_row_that_could_not_be_written_fails_its_task_with_the_reason(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    rows = spark.sql("select repeat('x', 2000000) as value union all select 'small'").coalesce(1)
    with pytest.raises(PySparkException) as caught:
        write(rows, cluster, topic=topic)
    assert re.search(r"1 of 2 rows .*RecordTooLargeError", before_tracebacks(caught.value))


DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def letters(cluster: MockCluster, topic: str) -> list[DeadLetter]:
    return [
        DeadLetter.of_record(
            ConsumerRecord(topic, 0, 0, 0, "", each.key, each.value, tuple(each.headers or ()))
        )
        for each in read_topic(cluster, topic)
    ]


def test_rows_that_no_broker_would_take_go_to_the_dead_letter_topic(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    cluster.create_topic(f"{topic}-failed", 2)
    rows = spark.range(100).selectExpr(
        "string(id) as key",
        "if(id % 10 = 3, repeat('x', 2000000), string(id)) as value",
        f"if(id = 7, null, '{topic}') as topic",
    )
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    report = publish_partitions(rows, **servers, **{DEAD_LETTERS: f"{topic}-failed"})
    assert (report.records, report.dead_letters) == (89, 11)
    assert "89 records written, 11 dead letters (" in str(report)
    good = sorted(n for n in range(100) if n % 10 != 3 and n != 7)
    assert sorted(int(each) for each in values(cluster, topic) if each is not None) == good
    kept = {int(each.key or b""): each for each in letters(cluster, f"{topic}-failed")}
    assert sorted(kept) == [3, 7, *range(13, 100, 10)]
    assert (kept[7].topic, kept[7].value, kept[7].error_name) == ("", b"7", "SerializationError")
    assert (kept[3].topic, kept[3].value, kept[3].error_name) == (
        topic,
        None,
        "RecordTooLargeError",
    )


def test_a_row_that_its_broker_finds_too_large_goes_there_too(
    spark: SparkSession, topic: str
) -> None:
    """Its topic takes less than a batch of the producer may have."""
    with MockCluster(brokers=1, topics={topic: 1, "failed": 1}) as refusing:
        refusing.push_request_errors(0, 10)  # Produce, MESSAGE_TOO_LARGE
        servers = {"kafka.bootstrap.servers": refusing.bootstrap_servers}
        rows = spark.sql("select 'k' as key, 'v' as value")
        report = publish_partitions(rows, topic=topic, **servers, **{DEAD_LETTERS: "failed"})
        assert (report.records, report.dead_letters) == (0, 1)
        [letter] = letters(refusing, "failed")
        assert (letter.key, letter.value, letter.error_name) == (b"k", None, "MessageTooLargeError")


def test_brokers_that_refuse_fail_the_task_with_the_reason(spark: SparkSession, topic: str) -> None:
    with MockCluster(brokers=1, topics={topic: 1}) as refusing:
        refusing.push_request_errors(0, *[29] * 10)  # Produce, TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(PySparkException, match=f"for topic '{topic}'.*TOPIC_AUTHORIZATION"):
            write(spark.sql("select '1' as value"), refusing, topic=topic)


def test_brokers_that_are_not_there(spark: SparkSession, cluster: MockCluster) -> None:
    rows = spark.sql("select '1' as value")
    servers = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "500"}
    for more in ({}, {"delivery.guarantee": "exactly_once", "sink.id": "s"}):
        options = {"topic": "t"} | servers | more
        with pytest.raises(PySparkException) as caught:
            rows.write.format("aioproducer").options(**options).mode("append").save()
        assert "127.0.0.1:1" in before_tracebacks(caught.value)


def test_a_variable_of_the_executors(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    session = spark.newSession()
    register(session)  # local Python workers have it from what is registered, or called
    rows = session.sql("select '1' as value")
    from_there = {"kafka.acks": f"${{env:{EXECUTOR_VARIABLE}}}"}
    write(rows, cluster, topic=topic, **from_there)
    assert EXECUTOR_VARIABLE not in os.environ
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    assert publish_partitions(rows, topic=topic, **servers, **from_there).records == 1
    assert values(cluster, topic) == [b"1", b"1"]


def test_a_variable_that_is_not_set_is_named(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    rows = spark.sql("select '1' as value")
    with pytest.raises(PySparkException) as caught:
        write(rows, cluster, topic=topic, **{"kafka.client.id": "${env:AIOPRODUCER_NOT_SET}"})
    assert "AIOPRODUCER_NOT_SET, which is not set in this process" in str(caught.value)


def test_secrets_are_not_in_errors(spark: SparkSession, cluster: MockCluster, topic: str) -> None:
    rows = spark.sql("select '1' as value")
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "public",
        "kafka.ssl.keystore.key": "hunter2",
    }
    with pytest.raises(PySparkException) as caught:
        write(rows, cluster, topic=topic, **options)
    assert "kafka.ssl.keystore.key contains a secret, which Spark shows" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_spark_redacts_what_is_taken_for_redacted(spark: SparkSession) -> None:
    """What is refused is what Spark shows: its own default says which that is. Later releases
    redact more."""
    jvm: Any = spark._jvm
    package = getattr(jvm.org.apache.spark.internal.config, "package$")
    entry = getattr(package, "MODULE$").SECRET_REDACTION_PATTERN()
    assert entry.key() == "spark.redaction.regex"
    assert entry.defaultValueString().split("|")[:4] == REDACTED.pattern.split("|")


def test_none_is_no_topic(spark: SparkSession, cluster: MockCluster) -> None:
    rows = spark.sql("select '1' as value")
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    with pytest.raises(ConfigError, match="topic option required"):
        publish_partitions(rows, topic=None, **servers)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("value", "Required attribute 'key' not found"),
        ("1 as key, value", "key attribute unsupported type int"),
        ("value as key", "Required attribute 'value' not found"),
        ("value as key, value, 1 as partition", "there already is a column 'partition'"),
    ],
)
def test_what_can_not_be_repartitioned_by_key(
    spark: SparkSession, columns: str, words: str
) -> None:
    rows = spark.sql(f"select {columns} from (select 'v' as value)")
    with pytest.raises(ConfigError, match=words):
        repartition_by_key(rows, 3)
    with pytest.raises(ConfigError, match="must be positive, not 0"):
        repartition_by_key(rows, 0)


def test_an_option_that_nobody_reads_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="unknown option 'tpic'"):
        foreach_batch(tpic="t")
    with pytest.raises(ConfigError, match="unknown option 'tpic'"):
        publish_partitions(spark.sql("select 'v' as value"), tpic="t")


@pytest.fixture
def words(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of two micro-batches."""
    for second, text in ((1, "a\nb\na\n"), (2, "b\na\n")):
        (tmp_path / "words").mkdir(exist_ok=True)
        file = tmp_path / "words" / str(second)
        file.write_text(text)
        os.utime(file, (second, second))  # Spark reads the older one first
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "words"))


def run(rows: DataFrame, cluster: MockCluster, topic: str, folder: Path, mode: str) -> None:
    query = (
        rows.writeStream.format("aioproducer")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)


def test_each_row_is_written(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    run(words, cluster, topic, tmp_path, "append")
    assert sorted(map(str, values(cluster, topic))) == sorted(map(str, [b"a", b"b"] * 2 + [b"a"]))


def test_complete_mode_appends_as_sparks_sink_does(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    counts = words.groupBy("value").count().selectExpr("concat(value, count) as value")
    run(counts, cluster, topic, tmp_path, "complete")
    assert sorted(map(str, values(cluster, topic))) == ["b'a2'", "b'a3'", "b'b1'", "b'b2'"]


def test_update_mode_goes_through_foreach_batch(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    counts = words.groupBy("value").count().selectExpr("concat(value, count) as value")
    with pytest.raises(Exception, match="does not support Update mode"):
        run(counts, cluster, topic, tmp_path / "refused", "update")
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": topic,
    }
    publish = foreach_batch(**options)
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(publish)
        .start()
    )
    query.awaitTermination(120)
    assert sorted(map(str, values(cluster, topic))) == ["b'a2'", "b'a3'", "b'b1'", "b'b2'"]


def test_a_query_is_restarted_after_brokers_were_away(
    words: DataFrame,
    cluster: MockCluster,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = words.writeStream.format("aioproducer").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.options(**{"topic": topic, "kafka.max.block.ms": "500"})
    addresses = iter(("127.0.0.1:1", cluster.bootstrap_servers))
    run_stream(lambda: writer.option("kafka.bootstrap.servers", next(addresses)).start())
    assert caplog.text.count("is restarted from its checkpoint") == 1
    assert len(values(cluster, topic)) == 5


def test_real_time_mode_takes_no_sink_in_python(
    spark: SparkSession, cluster: MockCluster, topic: str
) -> None:
    """If a version of Spark takes one, the page is out of date."""
    rows = spark.readStream.format("rate").load().selectExpr("string(value) as value")
    writer: Any = rows.writeStream.format("aioproducer").outputMode("update").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    jvm: Any = spark._jvm
    writer._jwrite.trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime(5_000))
    with pytest.raises(PySparkException, match=r"OPERATOR_OR_SINK_NOT_IN_ALLOWLIST.*PythonTable"):
        writer.start()


def test_a_micro_batch_that_can_not_be_written_ends_the_query_with_the_reason(
    words: DataFrame, cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    too_large = words.selectExpr("repeat(value, 2000000) as value")
    with pytest.raises(StreamingQueryException, match="RecordTooLargeError"):
        run(too_large, cluster, topic, tmp_path, "append")
    run(words, cluster, topic, tmp_path, "append")
    assert len(values(cluster, topic)) == 5
