"""One token for many records: a batch's list of tokens has it once for each of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

_UNCHANGING: Final = frozenset({bytes, str, int, float, bool, type(None)})
"""The types of values that nobody can change."""


class BulkOutcomes(Protocol):
    """The receiver of the outcomes of many records, which it knows by their index."""

    def done(self) -> bool:
        """True if it takes no outcome now."""

    def arrived(self, token: BulkToken, topic: str, partition: int, base_offset: int) -> None:
        """All records of ``token`` are in the log; ``base_offset`` -1: unknown."""

    def one(self, index: int) -> Any:
        """A token for one record."""


class BulkToken:
    """Records of one call that follow each other in one batch.

    The records have the indices ``first`` to ``first + count - 1``; with ``rows``, the indices that
    ``rows`` has at these places.
    """

    __slots__ = ("count", "first", "outcomes", "rows")

    def __init__(
        self, outcomes: BulkOutcomes, first: int, rows: array[int] | None = None, count: int = 0
    ) -> None:
        self.outcomes = outcomes
        self.first = first
        self.rows = rows
        self.count = count
        """The number of records, known when they are in the batch."""

    def done(self) -> bool:
        """True if the receiver takes no outcome now."""
        return self.outcomes.done()

    def deliver(self, topic: str, partition: int, base_offset: int) -> None:
        """The records are in the log; ``base_offset`` -1: unknown."""
        self.outcomes.arrived(self, topic, partition, base_offset)

    def one(self, position: int) -> Any:
        """A token for one of the records, by its position here."""
        place = self.first + position
        return self.outcomes.one(place if self.rows is None else self.rows[place])


def tokens_by_record(tokens: Iterable[Any]) -> Iterator[Any]:
    """A token for each single record, for a batch that is split."""
    last = None
    position = 0
    for token in tokens:
        if type(token) is not BulkToken:
            yield token
            continue
        position = position + 1 if token is last else 0
        last = token
        yield token.one(position)


def take_ahead(iterator: Iterator[Any], most: int, taken: list[Any]) -> None:
    """Append the next ``most`` values to ``taken``; the first that may change later is the last."""
    for value in islice(iterator, most):
        taken.append(value)
        if type(value) not in _UNCHANGING:
            return


def fill_places(
    partitions: array[int], offsets: array[int], token: BulkToken, partition: int, base_offset: int
) -> None:
    """Write partition and offset of the records of ``token`` to their indices.

    ``base_offset`` -1: unknown. Raises IndexError if there is no such index.
    """
    first, count, rows = token.first, token.count, token.rows
    there = len(partitions if rows is None else rows)
    if len(partitions) != len(offsets) or not 0 <= first <= first + count <= there:
        raise IndexError("the bulk token's records are beyond the records that were counted")
    known = range(base_offset, base_offset + count) if base_offset >= 0 else [-1] * count
    if rows is None:
        partitions[first : first + count] = array("i", [partition]) * count
        offsets[first : first + count] = array("q", known)
    else:
        chosen = rows[first : first + count]
        if chosen and not 0 <= min(chosen) <= max(chosen) < len(partitions):
            raise IndexError("the bulk token's records are beyond the records that were counted")
        for index, offset in zip(chosen, known, strict=True):
            partitions[index] = partition
            offsets[index] = offset
