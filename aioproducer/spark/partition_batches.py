"""The Arrow batches of a DataFrame, in an iterator, one partition after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PartitionBatches:
    """The rows of a DataFrame; reading them starts jobs and blocks."""

    batches: Iterator[pa.RecordBatch | None]
    """The batches of each partition in their order, with a None at the end of each partition."""
    partitions: int | None
    """The number of partitions; None: not known."""
