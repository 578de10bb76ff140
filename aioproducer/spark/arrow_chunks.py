"""Rows of a DataFrame come to the driver in Arrow format, in chunks of a few megabytes.

The jobs of one thread are marked, so that others can cancel them, and no other job.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from aioproducer.errors import ProducerError
from aioproducer.spark.internals import jvm_batches
from aioproducer.spark.packed_batches import PartitionBatches, packed_batches
from aioproducer.spark.planning import plan_typed_rows
from aioproducer.spark.rows import by_topic
from aioproducer.spark.typed_columns import arrow_type

_INTERRUPT: Final = "spark.sql.execution.interruptOnCancel"


class TaggedJobs:
    """Jobs marked by a tag. With Spark Connect the server has them, and a session's tag marks them.

    Threads that are in their way are interrupted, unless ``spark.sql.execution.interruptOnCancel``
    is false. In Spark Classic a session's tag would not do: most jobs of ``toLocalIterator()``
    start when its SQL execution is over, and ``interruptTag()`` does not see them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context: SparkContext | None = getattr(spark, "sparkContext", None)
        self._tag = f"aioproducer-{uuid4()}"

    @property
    def are_remote(self) -> bool:
        """True with Spark Connect, which tells little about the jobs."""
        return self._context is None

    @contextmanager
    def marked(self, local_properties: Mapping[str, str]) -> Iterator[None]:
        """Mark the jobs that this thread starts in the block, and the jobs that follow from them.

        ``local_properties`` stay with the thread: it has to be ours. (They would get into others
        with ``PYSPARK_PIN_THREAD=false``.)
        """
        if self._context is None:
            self._spark.addTag(self._tag)
        else:
            self._context.addJobTag(self._tag)
            # Jobs of SQL executions have it so; those of an RDD have none.
            self._context.setLocalProperty(
                "spark.job.interruptOnCancel", str(self._spark.conf.get(_INTERRUPT))
            )
            for name, value in local_properties.items():
                self._context.setLocalProperty(name, value)
        try:
            yield
        finally:
            if self._context is None:
                self._spark.removeTag(self._tag)
            else:
                self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        """Cancel the marked jobs that run now; from any thread."""
        if self._context is None:
            self._spark.interruptTag(self._tag)
        else:
            self._context.cancelJobsWithTag(self._tag)


CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size of a chunk's Arrow data, in bytes; a single large row may exceed it."""


class RowsNotReadError(Exception):
    """Spark failed. The text is Spark's own, without its stack; ``__cause__`` has all."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows that are next to each other in a partition of the DataFrame; they may be none."""

    topics: tuple[tuple[str, pa.RecordBatch], ...]
    """The rows of each topic, in their order, as ``send_many()`` takes them."""
    bytes: int
    last: bool
    """True for the last chunk of a partition. Every partition has such a chunk."""
    partitions: int | None
    """The number of partitions; None: not known."""


class ArrowChunks:
    """The rows of ``df``, one partition after the other. Everything here blocks."""

    def __init__(
        self,
        df: DataFrame,
        topic: str | None,
        local_properties: Mapping[str, str],
        formats: Mapping[str, str],
    ) -> None:
        self._df = df
        self._topic = topic
        self._local_properties = local_properties
        self._formats = formats
        self._jobs = TaggedJobs(df.sparkSession)
        self.cancel = self._jobs.cancel

    def read(self) -> Generator[Chunk]:
        """Yield the chunks. At most two partitions at a time are computed, or in the JVM's memory.

        Raises:
            ConfigError: a column is wrong; no job was started.
            SchemaRegistryError: the registry refuses a schema, or is not there; no job was started.
            SerializationError: a row has no topic, or does not fit its schema.
            RowsNotReadError: Spark failed, or its jobs were cancelled.
        """
        try:
            yield from self._read()
        except ProducerError:
            raise
        except Exception as error:
            raise RowsNotReadError(_told(error)) from error

    def _read(self) -> Generator[Chunk]:
        plan = plan_typed_rows(self._formats, self._df.schema, self._topic)
        with self._jobs.marked(self._local_properties):
            source = self._batches(self._df.select(*plan.columns))
            chunks = grouped(source.batches, CHUNK_BYTES)
            try:
                for rows, last in chunks:
                    topics = () if rows is None else tuple(by_topic(rows, plan))
                    size = 0 if rows is None else rows.nbytes
                    yield Chunk(topics, size, last, source.partitions)
                    del rows, topics
            finally:
                # Jobs first: a dropped iterator reads the rest of its partition.
                self._jobs.cancel()
                del chunks, source

    def _batches(self, df: DataFrame) -> PartitionBatches:
        if not self._jobs.are_remote:
            schema = pa.schema(
                [(each.name, arrow_type(each.dataType, each.name)) for each in df.schema]
            )
            if (straight := jvm_batches(df, schema)) is not None:
                return straight
        return packed_batches(df, CHUNK_BYTES)


def _told(error: Exception) -> str:
    """Spark's own words. Call it in a thread: it asks the JVM."""
    said = str(error).partition("\n\nJVM stacktrace:")[0]
    if "\n\tat " not in said:
        return f"{type(error).__name__}: {said}"
    # The stack of the JVM: the first cause comes last.
    return said.rpartition("Caused by: ")[2].partition("\n\tat ")[0].strip()


def grouped(
    batches: Iterable[pa.RecordBatch | None], size: int
) -> Iterator[tuple[pa.RecordBatch | None, bool]]:
    """Chunks of about ``size`` bytes, each with True if it ends its partition.

    A None ends a partition in ``batches``. A chunk that ends a partition may have no rows (None).
    """
    held: list[pa.RecordBatch] = []
    bytes_held = 0
    for batch in batches:
        if batch is None:
            yield (pa.concat_batches(held) if held else None), True
            held, bytes_held = [], 0
            continue
        for piece in _pieces(batch, size):
            if held and bytes_held + piece.nbytes > size:
                yield pa.concat_batches(held), False
                held, bytes_held = [], 0
            held.append(piece)
            bytes_held += piece.nbytes


def _pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    step = max(1, len(batch) * size // max(1, batch.nbytes))
    for start in range(0, len(batch), step):
        yield batch.slice(start, step)
