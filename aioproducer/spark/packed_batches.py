"""The rows of a DataFrame come to the driver as binary values: Arrow batches, packed by executors.

This only uses public methods of Spark, so it works with Spark Connect. A row that comes as an
object costs several microseconds; a packed batch is a copy of memory. The executors need pyarrow
for it, and nothing of this package. The result, :class:`PartitionBatches`, is also that of
``internals.jvm_batches()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row


@dataclass(frozen=True, slots=True)
class PartitionBatches:
    """The rows of a DataFrame; reading them starts jobs and blocks."""

    batches: Iterator[pa.RecordBatch | None]
    """The batches of each partition in their order, with a None at the end of each partition."""
    partitions: int | None
    """The number of partitions; None: not known."""


_COLUMNS: Final = "rows binary"

Packer = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def packed_batches(df: DataFrame, batch_bytes: int) -> PartitionBatches:
    """The batches of ``df``, of up to ``batch_bytes`` bytes unless a single row has more."""
    packed = df.mapInArrow(packer(batch_bytes), _COLUMNS)
    return PartitionBatches(_unpacked(packed.toLocalIterator(prefetchPartitions=True)), None)


def packer(batch_bytes: int) -> Packer:
    """A function that packs the batches of one partition; a null is its end."""

    # Executors get the function itself, not this module's name: it refers to nothing here.
    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            step = max(1, len(batch) * batch_bytes // max(1, batch.nbytes))
            for start in range(0, len(batch), step):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as stream:
                    stream.write_batch(batch.slice(start, step))
                data = pa.array([sink.getvalue().to_pybytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([data], ["rows"])
        yield pa.RecordBatch.from_arrays([pa.array([None], pa.binary())], ["rows"])

    return pack


def _unpacked(packed: Iterator[Row]) -> Iterator[pa.RecordBatch | None]:
    for (data,) in packed:
        yield None if data is None else pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
