"""Write a DataFrame to Kafka from the driver's event loop, for asynchronous applications.

Its rows come from an iterator that blocks, so a thread of its own reads it, a little ahead of the
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Final, Generic, Self, TypeVar

from pyspark.sql import DataFrame

from aioproducer import sync
from aioproducer.errors import ConfigError, ProducerError, SerializationError
from aioproducer.foundation.logs import duration, plain_logger
from aioproducer.producer import Producer
from aioproducer.spark.arrow_chunks import ArrowChunks, Chunk, RowsNotReadError
from aioproducer.spark.exactly_once import named
from aioproducer.spark.plan import Option, option_texts
from aioproducer.spark.report import PublishProgress, WriteReport
from aioproducer.spark.typed_columns import check_format_names

logger = plain_logger(__name__)

T = TypeVar("T")

AHEAD: Final = 2
"""The number of items asked for or present, beside the one that was taken last."""
PATIENCE_SECONDS: Final = 30.0
"""The longest time that leaving waits for the thread."""
_INTERRUPT_EVERY_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class Prefetcher(Generic[T]):
    """``read()`` is called, iterated over and closed in the thread. Used with ``async with``.

    The next item is asked for when there is room for it, so a slow taker stops the reading.
    Leaving before the end calls ``interrupt()`` in another thread, again and again until the first
    one has ended, as the work to interrupt may only begin a moment later. Leaving waits for both
    threads for at most ``patience`` seconds; if it is cancelled meanwhile, they go on ending by
    themselves.
    """

    def __init__(
        self,
        read: Callable[[], Generator[T]],
        interrupt: Callable[[], object],
        name: str,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._read = read
        self._interrupt = interrupt
        self._name = name
        self._patience = patience
        self._there: asyncio.Queue[T | _End] = asyncio.Queue()
        self._room: SimpleQueue[None] = SimpleQueue()
        """An item for each item that may be read; the first one is asked for without."""
        for _ in range(AHEAD - 1):
            self._room.put(None)
        self._stopping = False
        self._ended = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next item; raises the error of reading."""
        if self._ended:
            raise StopAsyncIteration
        item = await self._there.get()
        if not isinstance(item, _End):
            self._room.put(None)
            return item
        self._ended = True
        try:
            raise item.error or StopAsyncIteration
        finally:
            del item  # its traceback has this frame

    async def __aexit__(self, *_: object) -> None:
        if self._ended:
            self._thread.join()  # to say so was the last that it did
            return
        self._stop()
        gone = asyncio.Event()
        interrupter = Thread(
            target=self._interrupt_until_ended, args=(gone,), name=f"{self._name}-stop", daemon=True
        )
        interrupter.start()
        await gone.wait()
        interrupter.join()
        if self._thread.is_alive():
            logger.error(
                "%s did not end within %s and is abandoned", self._name, duration(self._patience)
            )

    def _stop(self) -> None:
        self._stopping = True
        self._room.put(None)

    # --- in the threads --------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._read()) as items:
                for item in items:
                    self._tell(self._there.put_nowait, item)
                    del item  # the next one is made meanwhile
                    self._room.get()
                    if self._stopping:
                        break
        except BaseException as raised:
            error = raised
        self._tell(self._there.put_nowait, _End(error))
        del error  # its traceback has this frame

    def _interrupt_until_ended(self, gone: asyncio.Event) -> None:
        deadline = monotonic() + self._patience
        while self._thread.is_alive() and monotonic() < deadline:
            try:
                self._interrupt()
            except Exception:
                logger.debug("%s could not be interrupted", self._name, exc_info=True)
            self._thread.join(_INTERRUPT_EVERY_SECONDS)
        self._tell(gone.set)

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed: nobody is there any more
            self._stop()


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
                failed.append((f"topic {topic!r}: {named(outcome)}", outcome))
                continue
            self.report = WriteReport.of((self.report, WriteReport.of_rows(rows, outcome)))
            if (why := outcome.first_failure) is not None:
                count = f"{outcome.failed:,} of {len(rows):,} rows at a time"
                failed.append((f"topic {topic!r}, {count}: {named(why)}", why))
        if failed:
            raise self._failed("not delivered: " + failed[0][0]) from failed[0][1]
        self.chunks += 1
        self._bytes += chunk.bytes
        self._partitions += chunk.last
        self._partitions_total = chunk.partitions

    def _failed(self, why: str) -> PublishError:
        return PublishError(f"{why} ({self.report.records:,} rows are in Kafka)", self.report)
