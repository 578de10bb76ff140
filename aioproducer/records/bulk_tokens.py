"""One token for many records: a batch's list of tokens has it once for each of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class BulkOutcomes(Protocol):
    """The receiver of the fates of many records, which it knows by their index."""

    def done(self) -> bool:
        """True if it wants no fate any more."""

    def arrived(self, span: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        """All records of ``span`` are in the log; ``base_offset`` -1: unknown."""

    def one(self, index: int) -> Any:
        """A token for one record."""


class BulkToken:
    """Records of one call that follow each other in one batch.

    The records have the indices ``first`` to ``first + count - 1``, or if there are ``rows``, the
    indices that these have at those places.
    """

    __slots__ = ("count", "fates", "first", "rows")

    def __init__(
        self, fates: BulkOutcomes, first: int, rows: array[int] | None = None, count: int = 0
    ) -> None:
        self.fates = fates
        self.first = first
        self.rows = rows
        self.count = count
        """The number of records, known when they are in the batch."""

    def done(self) -> bool:
        """True if nobody wants the records' fate any more."""
        return self.fates.done()

    def deliver(self, topic: str, partition: int, base_offset: int) -> None:
        """The records are in the log; ``base_offset`` -1: unknown."""
        self.fates.arrived(self, topic, partition, base_offset)

    def one(self, position: int) -> Any:
        """A token for one of the records, by its position here."""
        place = self.first + position
        return self.fates.one(place if self.rows is None else self.rows[place])


def one_by_one(tokens: Iterable[Any]) -> Iterator[Any]:
    """A token for each record alone, for a batch whose records part."""
    span = None
    position = 0
    for token in tokens:
        if type(token) is not BulkToken:
            yield token
            continue
        position = position + 1 if token is span else 0
        span = token
        yield span.one(position)


def fill_places(
    partitions: array[int], offsets: array[int], span: BulkToken, partition: int, base_offset: int
) -> None:
    """Write where the records of ``span`` are to their indices; ``base_offset`` -1: unknown.

    Raises IndexError if there is no such index.
    """
    first, count, rows = span.first, span.count, span.rows
    there = len(partitions if rows is None else rows)
    if len(partitions) != len(offsets) or not 0 <= first <= first + count <= there:
        raise IndexError("the records of a span are beyond those that were counted")
    known = range(base_offset, base_offset + count) if base_offset >= 0 else [-1] * count
    if rows is None:
        partitions[first : first + count] = array("i", [partition]) * count
        offsets[first : first + count] = array("q", known)
    else:
        chosen = rows[first : first + count]
        if chosen and not 0 <= min(chosen) <= max(chosen) < len(partitions):
            raise IndexError("the records of a span are beyond those that were counted")
        for index, offset in zip(chosen, known, strict=True):
            partitions[index] = partition
            offsets[index] = offset
