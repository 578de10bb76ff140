"""Rows of a DataFrame come to the driver in Arrow format, in chunks of a few megabytes.

A row that comes as an object costs several microseconds; a chunk is a copy of memory. The executors
need pyarrow for it, and nothing of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from aioproducer.errors import ProducerError
from aioproducer.spark.plan import plan_rows, types_of
from aioproducer.spark.rows import by_topic
from aioproducer.spark.tagged_jobs import TaggedJobs

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size of a chunk's Arrow data, in bytes; a single large row may exceed it."""
_COLUMNS: Final = "last boolean, rows binary"

Chunker = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
        self, df: DataFrame, topic: str | None, local_properties: Mapping[str, str]
    ) -> None:
        self._df = df
        self._topic = topic
        self._local_properties = local_properties
        self._jobs = TaggedJobs(df.sparkSession)
        self.cancel = self._jobs.cancel

    def read(self) -> Generator[Chunk]:
        """Yield the chunks. At most two partitions at a time are computed, or in the JVM's memory.

        Raises:
            ConfigError: a column is wrong; no job was started.
            SerializationError: a row has no topic.
            RowsNotReadError: Spark failed, or its jobs were cancelled.
        """
        try:
            yield from self._read()
        except ProducerError:
            raise
        except Exception as error:
            raise RowsNotReadError(_told(error)) from error

    def _read(self) -> Generator[Chunk]:
        plan = plan_rows(types_of(self._df.schema), self._topic)
        with self._jobs.marked(self._local_properties):
            packed = self._df.select(*plan.columns).mapInArrow(chunker(CHUNK_BYTES), _COLUMNS)
            chunks = packed.toLocalIterator(prefetchPartitions=True)
            # It is planned now, so this starts no job.
            partitions = None if self._jobs.are_remote else packed.rdd.getNumPartitions()
            try:
                for last, data in chunks:
                    rows = decode(data)
                    topics = () if rows is None else tuple(by_topic(rows, plan))
                    size = 0 if rows is None else rows.nbytes
                    yield Chunk(topics, size, last, partitions)
                    del rows, topics, data
            finally:
                # Jobs first: a dropped iterator reads the rest of its partition.
                self._jobs.cancel()
                del chunks


def _told(error: Exception) -> str:
    """Spark's own words. Call it in a thread: it asks the JVM."""
    said = str(error).partition("\n\nJVM stacktrace:")[0]
    if "\n\tat " not in said:
        return f"{type(error).__name__}: {said}"
    # The stack of the JVM: the first cause comes last.
    return said.rpartition("Caused by: ")[2].partition("\n\tat ")[0].strip()


def chunker(chunk_bytes: int) -> Chunker:
    """A function that makes chunks of the batches of one partition, of about ``chunk_bytes``."""

    # Executors get the function itself, not this module's name: it refers to nothing here.
    def chunks_of(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        def pieces() -> Iterator[Any]:
            for batch in batches:
                step = max(1, len(batch) * chunk_bytes // max(1, batch.nbytes))
                for start in range(0, len(batch), step):
                    yield batch.slice(start, step)

        def chunk(rows: list[Any], last: bool) -> Any:
            data = None
            if rows:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, rows[0].schema) as stream:
                    stream.write_batch(rows[0] if len(rows) == 1 else pa.concat_batches(rows))
                data = sink.getvalue().to_pybytes()
            return pa.RecordBatch.from_arrays(
                [pa.array([last]), pa.array([data], pa.binary())], ["last", "rows"]
            )

        held: list[Any] = []
        size = 0
        for piece in pieces():
            if held and size + piece.nbytes > chunk_bytes:
                yield chunk(held, False)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
        yield chunk(held, True)

    return chunks_of


def decode(data: bytes | bytearray | None) -> pa.RecordBatch | None:
    """The rows of a chunk, without a copy."""
    if data is None:
        return None
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
