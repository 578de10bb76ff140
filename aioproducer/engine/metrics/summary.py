"""The number of values, their sum and the greatest of them; times also by buckets."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

__all__ = ["LatencyHistogram", "Summary"]

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
        """Count ``count`` values of ``value`` each.

        They are counted without a call in between, so that no other thread reads a part of them.
        """
        buckets = self._buckets
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
        self.count += count
        self.total += value * count
        if value > self._greatest:
            self._greatest = value

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


class LatencyHistogram(Summary):
    """Counts by time, in buckets that grow with it (as of HdrHistogram). Times are seconds.

    A negative time counts as 0. It has at most 3,840 buckets, and keeps those that are not empty.
    """

    __slots__ = ()

    _buckets: defaultdict[int, int]

    def __init__(self) -> None:
        super().__init__()
        self._buckets = defaultdict(int)

    def __repr__(self) -> str:
        if not self.count:
            return "<LatencyHistogram without values>"
        half, most, longest = self.percentile(50), self.percentile(99), self.max
        return (
            f"<LatencyHistogram of {self.count:,} values: p50 {half * 1e3:.2f} ms, "
            f"p99 {most * 1e3:.2f} ms, max {longest * 1e3:.2f} ms>"
        )

    def percentile(self, percent: float) -> float:
        """The time, in seconds, that ``percent`` percent of the values did not exceed.

        ``percent`` has at most one decimal. NaN without values.
        """
        buckets = sorted(self._buckets.items())
        counted = sum(count for _, count in buckets)
        tenths = round(percent * 10)  # a float product may be just above a whole rank
        rank = max(1, -(-counted * tenths // 1000))  # rounded up
        seen = 0
        for bucket, count in buckets:
            seen += count
            if seen >= rank:
                return min(_upper_bound(bucket) / 1e6, self._greatest)
        return math.nan

    def count_up_to(self, seconds: float) -> int:
        """The number of values of ``seconds`` at most, within the width of a bucket."""
        last = bucket_of(min(max(0, round(seconds * 1e6)), LONGEST))
        return sum(count for bucket, count in list(self._buckets.items()) if bucket <= last)


def bucket_of(microseconds: int) -> int:
    """Below ``2 ** (BITS + 1)`` each number has a bucket; above, a power of two has 2 ** BITS."""
    shift = max(0, microseconds.bit_length() - BITS - 1)
    return (shift << BITS) + (microseconds >> shift)


def _upper_bound(bucket: int) -> int:
    """The longest time of a bucket, in microseconds."""
    shift = max(0, (bucket >> BITS) - 1)
    return ((bucket - (shift << BITS) + 1) << shift) - 1
