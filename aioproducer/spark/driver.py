"""Write a DataFrame to Kafka from the driver's event loop, for asynchronous applications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic

from pyspark.sql import DataFrame

from aioproducer import sync
from aioproducer.errors import ConfigError, ProducerError, SerializationError
from aioproducer.producer import Producer
from aioproducer.spark.arrow_chunks import ArrowChunks, Chunk, RowsNotReadError
from aioproducer.spark.formats import check_format_names
from aioproducer.spark.plan import Option, option_texts
from aioproducer.spark.prefetcher import Prefetcher
from aioproducer.spark.progress import PublishProgress
from aioproducer.spark.report import WriteReport


class PublishError(ProducerError):
    """A DataFrame was not written completely; ``__cause__`` is the reason.

    ``report``: the records that were written.
    """

    def __init__(self, message: str, report: WriteReport) -> None:
        super().__init__(message)
        self.report = report


async def publish_dataframe(
    df: DataFrame,
    producer: Producer,
    topic: str | None = None,
    progress: Callable[[PublishProgress], object] | None = None,
    *,
    local_properties: Mapping[str, str] | None = None,
    formats: Mapping[str, Option] | None = None,
) -> WriteReport:
    """Send every row of ``df`` and wait until all are in Kafka.

    The columns are those of Spark's Kafka sink: ``value``, and any of ``key``, ``headers``,
    ``topic`` and ``partition``; others are ignored. The argument ``topic`` takes precedence over
    the column. Rows of one partition of ``df`` are sent in order, and partitions one after the
    other. Two partitions are computed at a time, and the driver's JVM holds several copies of each:
    two partitions of 200 MB are too much for 2 GB (``spark.driver.memory``). Use many small
    partitions rather than a few large ones. This process holds at most four chunks of 4 MB, or of
    512 rows if these are larger (``spark.sql.execution.arrow.maxRecordsPerBatch`` lowers the
    number). If the data should not pass through the driver, use ``df.write.format("aioproducer")``.

    ``progress`` is called on the event loop after every few thousand rows in Kafka, and after every
    partition; its exceptions end the call. ``local_properties``: properties for Spark's jobs, such
    as ``{"spark.scheduler.pool": "background"}``. The calling thread's properties are neither used
    nor changed (Spark Connect has none). ``formats``: the sink's options for typed columns, such as
    ``{"value.format": "json"}``; this process encodes them. Blocking calls run in a thread.

    If the call is cancelled or fails, it cancels the jobs and waits up to 30 s for them and for the
    thread. A second cancellation skips the wait, and they end in the background. Rows that were
    sent stay: delivery is at least once, or all or nothing within
    ``async with producer.transaction()``.

    Raises:
        ConfigError: a column is missing or has a wrong type; nothing ran.
        SchemaRegistryError: the registry refused a schema, or is unavailable; nothing ran.
        PublishError: Spark failed, or a row could not be delivered, with its topic and the reason.
        ProducerClosedError, ProducerBrokenError, IllegalStateError, WrongLoopError: the producer
            can't be used now, or not from here.

    Source: the columns and their errors, ``KafkaWriter`` of Spark's Kafka connector.
    """
    if isinstance(producer, sync.Producer):
        raise ConfigError(
            "publish_dataframe() needs an aioproducer.Producer that was started on this event "
            "loop; with blocking code use df.write.format('aioproducer')"
        )
    producer._core.check_usable()
    publication = _Publication(producer)
    given = option_texts(formats or {})
    check_format_names(given)
    rows = ArrowChunks(df, topic, local_properties or {}, given)
    async with Prefetcher(rows.read, rows.cancel, "aioproducer-publish") as chunks:
        while (chunk := await publication.next_of(chunks)) is not None:
            await publication.send(chunk)
            if progress is not None:
                progress(publication.progress())
    if progress is not None and not publication.chunks:
        progress(publication.progress())
    return publication.report


class _Publication:
    """One DataFrame on its way."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._began = monotonic()
        self._bytes = 0
        self._partitions = 0
        self._partitions_total: int | None = 0
        self.chunks = 0
        self.report = WriteReport()

    def progress(self) -> PublishProgress:
        return PublishProgress(
            self.report.records,
            self._bytes,
            self._partitions,
            self._partitions_total,
            monotonic() - self._began,
        )

    async def next_of(self, chunks: Prefetcher[Chunk]) -> Chunk | None:
        """The next chunk; None: there is none."""
        try:
            return await anext(chunks, None)
        except RowsNotReadError as error:
            raise self._failed(f"Spark failed: {error}") from error.__cause__
        except SerializationError as error:
            raise self._failed(str(error)) from error

    async def send(self, chunk: Chunk) -> None:
        """Send rows and wait for their outcome: the next ones wait, so that none overtakes them."""
        outcomes = await asyncio.gather(
            *(self._producer.send_many(topic, rows) for topic, rows in chunk.topics),
            return_exceptions=True,
        )
        failed: list[tuple[str, BaseException]] = []
        for (topic, rows), outcome in zip(chunk.topics, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failed.append((f"topic {topic!r}: {_named(outcome)}", outcome))
                continue
            self.report = WriteReport.of(
                (self.report, WriteReport(outcome.delivered, outcome.ranges))
            )
            if (why := outcome.first_failure) is not None:
                count = f"{outcome.failed:,} of {len(rows):,} rows at a time"
                failed.append((f"topic {topic!r}, {count}: {_named(why)}", why))
        if failed:
            raise self._failed("not delivered: " + failed[0][0]) from failed[0][1]
        self.chunks += 1
        self._bytes += chunk.bytes
        self._partitions += chunk.last
        self._partitions_total = chunk.partitions

    def _failed(self, why: str) -> PublishError:
        return PublishError(f"{why} ({self.report.records:,} rows are in Kafka)", self.report)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
