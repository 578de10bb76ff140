"""``publish_dataframe()``: a real Spark, librdkafka's mock cluster, and its client to read back."""

from __future__ import annotations

import asyncio
import gc
import io
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from aioproducer import Producer
from aioproducer.engine.bulk.send_report import SendReport
from aioproducer.errors import (
    ConfigError,
    MissingExtraError,
    ProducerClosedError,
    RecordTooLargeError,
)
from aioproducer.spark import (
    PublishError,
    PublishProgress,
    WriteReport,
    arrow_chunks,
    internals,
    publish_dataframe,
    rich_progress,
)
from aioproducer.spark.rows import by_topic
from aioproducer.sync import Producer as BlockingProducer
from aioproducer.testing.mock_cluster import MockCluster
from tests.support.read_back import ReadRecord, read_topic, values
from tests.support.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.mock_cluster,
    # PySpark leaves the socket of toLocalIterator() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LARGEST_GAP = 0.5
"""Seconds that the event loop may be held up."""


@pytest.fixture(autouse=True)
def _sockets_are_collected() -> Iterator[None]:
    """An error of Spark has PySpark's socket in its traceback: it ends with the test."""
    yield
    gc.collect()


@pytest.fixture
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """About 1,000 rows of a number each."""
    monkeypatch.setattr(arrow_chunks, "CHUNK_BYTES", 10_000)


def producing(cluster: MockCluster, **options: Any) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **options)


def numbers(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Rows with their number as value, those of a partition next to each other."""
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as value")


def jobs(spark: SparkSession) -> set[int]:
    """All jobs that there have been. Ours have no group."""
    context = spark.sparkContext._jsc
    assert context is not None
    context.sc().listenerBus().waitUntilEmpty()  # it tells the tracker
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup())


def reading_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("aioproducer-pub")]


async def assert_nothing_is_left(spark: SparkSession) -> None:
    """No thread, and no job; what was cancelled needs a moment until Spark's tracker knows."""
    assert reading_threads() == []
    tracker = spark.sparkContext.statusTracker()
    await until(lambda: not tracker.getActiveJobsIds(), timeout=PATIENCE)
    ran = jobs(spark)
    await asyncio.sleep(0.3)
    assert jobs(spark) == ran


# --- what arrives --------------------------------------------------------------------------


async def test_every_row_arrives_as_it_is(spark: SparkSession, cluster: MockCluster) -> None:
    cluster.create_topics({"all-a": 3, "all-b": 2})
    df = spark.range(0, 3000, 1, 3).selectExpr(
        "if(id % 3 = 0, 'all-a', 'all-b') as topic",
        "if(id % 7 = 0, null, concat('key ', id)) as key",
        "if(id % 11 = 0, null, cast(concat('value ', id) as binary)) as value",
        "if(id % 5 = 0, cast(id % 2 as int), null) as partition",
        """case when id % 13 = 0 then null when id % 13 = 1 then array()
           else array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary)),
                      named_struct('key', 'n', 'value', cast(null as binary))) end as headers""",
        "id as not_sent",
    )
    async with producing(cluster) as producer:
        report = await publish_dataframe(df, producer)

    expected: dict[str, set[Any]] = {"all-a": set(), "all-b": set()}
    for n in range(3000):
        headers = None if n % 13 < 2 else (("n", b"%d" % n), ("n", None))
        key = None if n % 7 == 0 else b"key %d" % n
        value = None if n % 11 == 0 else b"value %d" % n
        expected["all-b" if n % 3 else "all-a"].add((key, value, headers))
    for topic, rows in expected.items():
        found = read_topic(cluster, topic)
        assert len(found) == sum(n % 3 == 0 for n in range(3000)) * (1 if topic == "all-a" else 2)
        assert {(m.key, m.value, headers_of(m)) for m in found} == rows
        for message in found:
            text = (message.value or message.key or b"").rpartition(b" ")[2]
            if text and int(text) % 5 == 0:
                assert message.partition == int(text) % 2
        counts = {p: r.count for (t, p), r in report.ranges.items() if t == topic}
        assert sum(counts.values()) == len(found)
        assert counts == {
            p: sum(m.partition == p for m in found) for p in {m.partition for m in found}
        }
    assert report.records == 3000
    await assert_nothing_is_left(spark)


def headers_of(record: ReadRecord) -> Any:
    headers = record.headers
    return None if headers is None else tuple(headers)


async def test_the_argument_goes_before_the_column(
    spark: SparkSession, cluster: MockCluster
) -> None:
    cluster.create_topics({"argument": 1})
    df = spark.range(5).selectExpr("'elsewhere' as topic", "'v' as value")
    async with producing(cluster) as producer:
        await publish_dataframe(df, producer, "argument")
    assert values(cluster, "argument") == [b"v"] * 5


async def test_rows_keep_their_order(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"order": 1})
    seen: list[PublishProgress] = []
    async with producing(cluster, batch_size=500) as producer:
        await publish_dataframe(numbers(spark, 40_000, 4), producer, "order", seen.append)
    assert values(cluster, "order") == [b"%d" % n for n in range(40_000)]
    assert len(seen) > 4 * 5


async def test_small_batches_come_together_in_a_cell(
    spark: SparkSession, cluster: MockCluster
) -> None:
    cluster.create_topics({"small": 1})
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    seen: list[PublishProgress] = []
    async with producing(cluster) as producer:
        await publish_dataframe(numbers(session, 10_000, 2), producer, "small", seen.append)
    assert len(seen) == 2
    assert values(cluster, "small") == [b"%d" % n for n in range(10_000)]


async def test_rows_larger_than_a_cell(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"large": 1})
    df = spark.range(0, 20, 1, 2).selectExpr("repeat(chr(97 + id), 30000) as value")
    async with producing(cluster) as producer:
        await publish_dataframe(df, producer, "large")
    assert values(cluster, "large") == [b"%c" % (97 + n) * 30_000 for n in range(20)]


async def test_settings_of_the_session_hold_for_its_rows(
    spark: SparkSession, cluster: MockCluster
) -> None:
    """The rows are computed with them, and not with those that the Arrow batches need."""
    cluster.create_topics({"settings": 1})
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    df = session.range(0, 4, 1, 2).selectExpr(
        """concat(cast(timestamp_seconds(id) as string), ' ',
           coalesce(cast(concat(id, 'x') as int), -1)) as value"""
    )
    async with producing(cluster) as producer:
        await publish_dataframe(df, producer, "settings")
    assert values(cluster, "settings") == [b"1970-01-01 09:00:0%d -1" % n for n in range(4)]


async def test_a_jvm_without_the_methods_for_arrow(
    spark: SparkSession, cluster: MockCluster, small_cells: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors pack the rows then, as they do with Spark Connect."""
    monkeypatch.setattr(
        internals, "_arrow_batches", lambda df: df._jdf.queryExecution().thereIsNoSuchMethod()
    )
    cluster.create_topics({"packed": 1})
    seen: list[PublishProgress] = []
    async with producing(cluster) as producer:
        report = await publish_dataframe(numbers(spark, 9_000, 3), producer, "packed", seen.append)
    assert values(cluster, "packed") == [b"%d" % n for n in range(9_000)]
    assert report.records == 9_000
    assert (seen[-1].partitions_done, seen[-1].partitions_total) == (3, None)
    assert len(seen) > 3


@pytest.mark.parametrize("partitions", [0, 1, 3])
async def test_no_rows(spark: SparkSession, cluster: MockCluster, partitions: int) -> None:
    df = spark.createDataFrame(spark.sparkContext.emptyRDD(), "value string")
    if partitions:
        df = spark.range(0, 0, 1, 1).selectExpr("'x' as value").repartition(partitions, "value")
    seen: list[PublishProgress] = []
    async with producing(cluster) as producer:
        assert await publish_dataframe(df, producer, "none", seen.append) == WriteReport()
    assert (seen[-1].rows, seen[-1].bytes) == (0, 0)
    assert seen[-1].partitions_done == seen[-1].partitions_total


async def test_several_at_a_time(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"several-0": 1, "several-1": 1, "several-2": 1})
    df = numbers(spark, 5000, 3)
    async with producing(cluster) as producer:
        reports = await asyncio.gather(
            *(publish_dataframe(df, producer, f"several-{n}") for n in range(3))
        )
    for n, report in enumerate(reports):
        assert report.records == 5000
        assert values(cluster, f"several-{n}") == [b"%d" % each for each in range(5000)]
    await assert_nothing_is_left(spark)


async def test_a_shuffle_runs_once(spark: SparkSession, cluster: MockCluster) -> None:
    cluster.create_topics({"shuffled": 1})
    counter = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        counter.add(1)
        yield from batches

    df = numbers(spark, 1000, 4).mapInArrow(count, "value string").repartition(3)
    before = jobs(spark)
    seen: list[PublishProgress] = []
    async with producing(cluster) as producer:
        await publish_dataframe(df, producer, "shuffled", seen.append)
    assert counter.value == 4
    assert len(jobs(spark) - before) == 3 + 1
    assert Counter(values(cluster, "shuffled")) == Counter(b"%d" % n for n in range(1000))
    assert seen[-1].partitions_total == 3


# --- what is refused, and what fails -------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        (["'k' as key"], "t", r"Required attribute 'value' not found \(the columns are: key\)"),
        (["'v' as value"], None, "topic option required when no 'topic' attribute is present"),
        (["id as value"], "t", "value attribute unsupported type bigint"),
        (["'v' as value", "id as partition"], "t", r"partition must be a\(n\) int"),
        (["'v' as value", "'h' as headers"], "t", "headers attribute unsupported type string"),
    ],
)
async def test_a_wrong_schema_runs_nothing(
    spark: SparkSession, cluster: MockCluster, columns: list[str], topic: str, message: str
) -> None:
    before = jobs(spark)
    async with producing(cluster) as producer:
        with pytest.raises(ConfigError, match=message):
            await publish_dataframe(spark.range(5).selectExpr(*columns), producer, topic)
    await assert_nothing_is_left(spark)
    assert jobs(spark) == before


async def test_producers_that_can_not_be_used(spark: SparkSession, cluster: MockCluster) -> None:
    df = numbers(spark, 5, 1)
    producer = producing(cluster)
    with pytest.raises(Exception, match="was not started"):
        await publish_dataframe(df, producer, "t")
    await producer.close()
    with pytest.raises(ProducerClosedError):
        await publish_dataframe(df, producer, "t")
    blocking: Any = BlockingProducer(bootstrap_servers=cluster.bootstrap_servers)
    with pytest.raises(ConfigError, match="started on this event loop"):
        await publish_dataframe(df, blocking, "t")


async def test_a_failed_delivery_stops_the_job(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"failing": 1})
    df = spark.range(0, 20_000, 1, 10).selectExpr(
        "if(id = 3000, repeat('x', 2000000), cast(id as string)) as value"
    )
    before = jobs(spark)
    async with producing(cluster) as producer:
        with pytest.raises(PublishError, match=r"topic 'failing', 1 of .* rows") as raised:
            await publish_dataframe(df, producer, "failing")
        await assert_nothing_is_left(spark)
    assert isinstance(raised.value.__cause__, RecordTooLargeError)
    assert "RecordTooLargeError" in str(raised.value)
    assert f"({raised.value.report.records:,} rows are in Kafka)" in str(raised.value)
    assert len(jobs(spark) - before) <= 4
    found = values(cluster, "failing")
    assert len(found) == raised.value.report.records
    assert found[:3000] == [b"%d" % n for n in range(3000)]


async def test_one_of_many_topics_fails(spark: SparkSession, cluster: MockCluster) -> None:
    cluster.create_topics({"good": 1, "bad": 1})
    df = spark.range(0, 10, 1, 1).selectExpr(
        "if(id = 5, 'bad', 'good') as topic", "if(id = 5, repeat('x', 2000000), 'v') as value"
    )
    async with producing(cluster) as producer:
        with pytest.raises(PublishError, match=r"topic 'bad', 1 of 1 rows") as raised:
            await publish_dataframe(df, producer)
    assert raised.value.report.records == 9
    assert values(cluster, "good") == [b"v"] * 9


async def test_a_row_without_topic(spark: SparkSession, cluster: MockCluster) -> None:
    df = spark.range(0, 10, 1, 1).selectExpr("if(id = 5, null, 't') as topic", "'v' as value")
    async with producing(cluster) as producer:
        with pytest.raises(PublishError, match="contains a null topic"):
            await publish_dataframe(df, producer)
    await assert_nothing_is_left(spark)


async def test_a_producer_closed_meanwhile(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"closing": 1})
    producer = producing(cluster)
    await producer.start()
    closing: list[asyncio.Task[int]] = []

    def close(_: PublishProgress) -> None:
        if not closing:
            closing.append(asyncio.create_task(producer.close()))

    with pytest.raises(PublishError, match=r"'closing'.*ProducerClosedError"):
        await publish_dataframe(numbers(spark, 20_000, 10), producer, "closing", close)
    await closing[0]
    await assert_nothing_is_left(spark)


@pytest.mark.parametrize("python", [True, False])
async def test_spark_fails(spark: SparkSession, cluster: MockCluster, python: bool) -> None:
    cluster.create_topics({f"spark-fails-{python}": 1})

    def fail(batches: Any) -> Any:
        if getattr(TaskContext.get(), "partitionId", int)() == 3:
            raise ValueError("bad rows")
        yield from batches

    df = numbers(spark, 20_000, 5)
    if python:
        df = df.mapInArrow(fail, "value string")
    else:
        df = df.selectExpr("if(value = '15000', raise_error('bad rows'), value) as value")
    async with producing(cluster) as producer:
        with pytest.raises(PublishError, match=r"(?s)Spark failed: .*bad rows") as raised:
            await publish_dataframe(df, producer, f"spark-fails-{python}")
    assert "\tat " not in str(raised.value)
    assert raised.value.__cause__ is not None
    found = values(cluster, f"spark-fails-{python}")
    assert found == [b"%d" % n for n in range(raised.value.report.records)]
    assert len(found) >= 4000
    await assert_nothing_is_left(spark)


async def test_what_progress_raises_ends_it(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"raising": 1})

    def stop(progress: PublishProgress) -> None:
        raise LookupError

    before = jobs(spark)
    async with producing(cluster) as producer:
        with pytest.raises(LookupError):
            await publish_dataframe(numbers(spark, 20_000, 10), producer, "raising", stop)
    await assert_nothing_is_left(spark)
    assert len(jobs(spark) - before) <= 3


# --- cancellation --------------------------------------------------------------------------


def stuck(directory: Path, partition: int) -> Callable[[Any], Any]:
    """Touches a file at the partition, and waits there until there is another one."""

    def wait(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == partition:
            (directory / "stuck").touch()
            while not (directory / "let go").exists():
                time.sleep(0.1)
        yield from batches

    return wait


@asynccontextmanager
async def publishing(
    df: DataFrame, producer: Producer, topic: str, seen: list[PublishProgress]
) -> AsyncIterator[asyncio.Task[WriteReport]]:
    task = asyncio.create_task(publish_dataframe(df, producer, topic, seen.append))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("partition", [0, 3])
async def test_cancelling_stops_a_task_that_is_stuck(
    spark: SparkSession, cluster: MockCluster, tmp_path: Path, partition: int
) -> None:
    cluster.create_topics({f"stuck-{partition}": 1})
    df = numbers(spark, 5000, 5).mapInArrow(stuck(tmp_path, partition), "value string")
    seen: list[PublishProgress] = []
    try:
        async with (
            producing(cluster) as producer,
            publishing(df, producer, f"stuck-{partition}", seen) as task,
        ):
            await until(
                lambda: (tmp_path / "stuck").exists() and len(seen) >= partition - 1,
                timeout=PATIENCE,
            )
            await until(spark.sparkContext.statusTracker().getActiveJobsIds, timeout=PATIENCE)
            task.cancel()
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait([task])
            assert task.cancelled()
            await assert_nothing_is_left(spark)
    finally:
        (tmp_path / "let go").touch()


class HeldUp(Producer):
    """Sends nothing after the first calls until it is let go."""

    calls = 0
    free_calls = 0

    async def send_many(self, topic: str, values: Any, **options: Any) -> SendReport:
        self.calls += 1
        if self.calls > self.free_calls:
            await asyncio.Event().wait()
        return await super().send_many(topic, values, **options)


@pytest.mark.parametrize("free_calls", [0, 4])
async def test_cancelling_between_partitions_starts_no_other(
    spark: SparkSession, cluster: MockCluster, small_cells: None, free_calls: int
) -> None:
    """While delivery is held up Spark has nothing to do, so there is no job to cancel."""
    topic = f"between-{free_calls}"
    cluster.create_topics({topic: 1})
    before = jobs(spark)
    seen: list[PublishProgress] = []
    async with (
        HeldUp(bootstrap_servers=cluster.bootstrap_servers) as producer,
        publishing(numbers(spark, 10_000, 20), producer, topic, seen) as task,
    ):
        producer.free_calls = free_calls
        await until(lambda: producer.calls > free_calls, timeout=PATIENCE)
        await until(
            lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), timeout=PATIENCE
        )
        task.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([task])
        assert task.cancelled()
        await assert_nothing_is_left(spark)
    assert len(seen) == free_calls
    assert len(jobs(spark) - before) <= free_calls + 5  # one sent, two ahead, two prefetched


async def test_cancelling_at_once(spark: SparkSession, cluster: MockCluster) -> None:
    async with producing(cluster) as producer:
        for delay in (0, 0.01, 0.03, 0.1, 0.2):
            task = asyncio.create_task(publish_dataframe(numbers(spark, 9, 3), producer, "once"))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait([task])
            await assert_nothing_is_left(spark)


# --- memory, time, progress ----------------------------------------------------------------


async def test_a_slow_producer_holds_the_reading_up(
    spark: SparkSession,
    cluster: MockCluster,
    small_cells: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.create_topics({"slow": 1})
    unpacked = 0

    def counting(*rows_and_plan: Any) -> Any:
        nonlocal unpacked
        unpacked += 1
        return by_topic(*rows_and_plan)

    monkeypatch.setattr("aioproducer.spark.arrow_chunks.by_topic", counting)
    sent = 0

    class Slow(Producer):
        async def send_many(self, topic: str, values: Any, **options: Any) -> SendReport:
            nonlocal sent
            # The one that is being sent, and two more.
            await until(lambda: unpacked - sent >= min(3, 20 - sent), timeout=PATIENCE)
            await asyncio.sleep(0.1)  # the chance to read more
            assert unpacked - sent <= 3
            sent += 1
            return await super().send_many(topic, values, **options)

    before = jobs(spark)
    async with Slow(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await publish_dataframe(numbers(spark, 20_000, 20), producer, "slow")
    assert sent == len(jobs(spark) - before) == 20


async def test_the_event_loop_stays_responsive(spark: SparkSession, cluster: MockCluster) -> None:
    """In one of some runs: a busy machine holds it up as well, but not in all of them."""
    cluster.create_topics({"responsive": 6})
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    df = spark.range(0, 400_000, 1, 4).selectExpr(
        "repeat('x', 100) as value", "cast(id as string) as key"
    )
    async with producing(cluster) as producer:
        for _ in range(5):
            gaps.clear()
            ticking = asyncio.create_task(tick())
            report = await publish_dataframe(df, producer, "responsive")
            ticking.cancel()
            assert report.records == 400_000
            assert len(gaps) > 10
            if max(gaps) < LARGEST_GAP:
                break
    assert max(gaps) < LARGEST_GAP


async def test_progress_grows_and_ends_with_everything(
    spark: SparkSession, cluster: MockCluster, small_cells: None
) -> None:
    cluster.create_topics({"progress": 2})
    seen: list[PublishProgress] = []
    loop_thread = threading.current_thread()

    def note(progress: PublishProgress) -> None:
        assert threading.current_thread() is loop_thread
        seen.append(progress)

    async with producing(cluster) as producer:
        report = await publish_dataframe(numbers(spark, 30_000, 5), producer, "progress", note)
    for before, after in itertools.pairwise(seen):
        assert before.rows < after.rows
        assert before.bytes < after.bytes
        assert before.partitions_done <= after.partitions_done
        assert before.seconds < after.seconds
    last = seen[-1]
    assert last.rows == report.records == 30_000
    assert last.bytes > sum(len(str(n)) for n in range(30_000))
    assert (last.partitions_done, last.partitions_total) == (5, 5)
    assert last.rows_per_second == pytest.approx(30_000 / last.seconds)
    assert {each.partitions_done for each in seen} == {0, 1, 2, 3, 4, 5}


def test_the_bar_on_the_terminal() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=100, force_interactive=True)
    with rich_progress("flights", console=console) as progress:
        progress(PublishProgress(5_000, 100, 1, None, 0.5))
        progress(PublishProgress(12_345, 200, 2, 2, 1.0))
    shown = terminal.getvalue()
    assert "flights" in shown
    assert "12,345 rows, 12,345 rows/s" in shown


def test_without_rich_the_bar_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'aioproducer\[cli\]'"),
        rich_progress(),
    ):
        pass


# --- whose jobs they are -------------------------------------------------------------------


async def test_properties_of_threads_stay_where_they_are(
    spark: SparkSession, cluster: MockCluster
) -> None:
    cluster.create_topics({"properties": 1})
    context = spark.sparkContext

    def tell(batches: Any) -> Any:
        import pyarrow as pa

        list(batches)
        task = TaskContext.get()
        assert task is not None
        names = ("spark.jobGroup.id", "spark.scheduler.pool", "spark.job.interruptOnCancel")
        told = ", ".join(str(task.getLocalProperty(name)) for name in names)
        yield pa.RecordBatch.from_pydict({"value": [told]})

    context.setJobGroup("mine", "what the caller does")
    context.setLocalProperty("spark.scheduler.pool", "callers")
    tags = spark.getTags()
    try:
        async with producing(cluster) as producer:
            await publish_dataframe(
                spark.range(0, 1, 1, 1).mapInArrow(tell, "value string"),
                producer,
                "properties",
                local_properties={"spark.scheduler.pool": "background"},
            )
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.scheduler.pool") == "callers"
        assert context.getLocalProperty("spark.job.interruptOnCancel") == "false"
        assert context.statusTracker().getJobIdsForGroup("mine") == []
        assert spark.getTags() == tags == set()
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
    assert values(cluster, "properties") == [b"None, background, true"]
