"""The number of values, their sum and the greatest of them; times also by buckets."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

__all__ = ["Summary", "add_values"]

BITS: Final = 7
"""Buckets per power of two, as a power of two: a percentile is at most 1/128 too high."""
LONGEST: Final = (1 << 36) - 1
"""Microseconds, 19 hours; longer ones count as this."""


class Summary:
    """The number of values, their sum and the greatest of them."""

    __slots__ = ("_buckets", "_greatest", "count", "total")

    def __init__(self) -> None:
        self.count: int = 0
        self.total: float = 0.0
        self._greatest: float = -math.inf
        self._buckets: defaultdict[int, int] | None = None
        """The counts of times by :func:`bucket_of`; None: the values are no times with buckets."""

    def add(self, value: float, count: int = 1) -> None:
        """Count ``count`` values of ``value`` each."""
        add_values(self, value, count)

    def absorb(self, other: Summary) -> None:
        self.count += other.count
        self.total += other.total
        if other._greatest > self._greatest:
            self._greatest = other._greatest
        if self._buckets is not None and other._buckets is not None:
            for bucket, count in list(other._buckets.items()):
                self._buckets[bucket] += count

    @property
    def mean(self) -> float:
        """NaN without values, as Kafka's ``Avg``."""
        return self.total / self.count if self.count else math.nan

    @property
    def max(self) -> float:
        """NaN without values, as Kafka's ``Max``."""
        return self._greatest if self.count else math.nan


def add_values(summary: Summary, value: float, count: int) -> None:
    """Do :meth:`Summary.add` in one call less, for what happens with each batch.

    The value is counted without a call in between, so that no other thread reads a part of it.
    """
    buckets = summary._buckets
    bucket: int
    microseconds: int
    if buckets is not None:
        if value < 0:
            value = 0.0
        bucket = microseconds = int(value * 1e6 + 0.5)
        if microseconds >> (BITS + 1):  # bucket_of() for all but the shortest
            if microseconds > LONGEST:
                microseconds = LONGEST
            shift: int = microseconds.bit_length() - BITS - 1
            bucket = (shift << BITS) + (microseconds >> shift)
        buckets[bucket] += count
    summary.count += count
    summary.total += value * count
    if value > summary._greatest:
        summary._greatest = value


def bucket_of(microseconds: int) -> int:
    """Below ``2 ** (BITS + 1)`` each number has a bucket; above, a power of two has 2 ** BITS."""
    shift = max(0, microseconds.bit_length() - BITS - 1)
    return (shift << BITS) + (microseconds >> shift)
