"""Times in buckets: percentiles of any number of values, in bounded memory."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from aioproducer.metrics.summary import Summary

__all__ = ["Latencies", "LatencyHistogram"]

_BITS: Final = 7
"""Buckets per power of two, as a power of two: a percentile is at most 1/128 too high."""
_LONGEST: Final = (1 << 36) - 1
"""Microseconds, 19 hours; longer ones count as this."""


class LatencyHistogram(Summary):
    """Counts by time, in buckets that grow with it (as of HdrHistogram). Times are seconds.

    It has at most 3,840 buckets, and keeps those that are not empty.
    """

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[int, int] = {}

    def __repr__(self) -> str:
        if not self.count:
            return "<LatencyHistogram without values>"
        half, most, longest = self.percentile(50), self.percentile(99), self.max
        return (
            f"<LatencyHistogram of {self.count:,} values: p50 {half * 1e3:.2f} ms, "
            f"p99 {most * 1e3:.2f} ms, max {longest * 1e3:.2f} ms>"
        )

    def add(self, value: float, count: int = 1) -> None:
        """Count ``count`` values of ``value`` seconds each; a negative value counts as 0."""
        if value < 0:
            value = 0.0
        self.count += count
        self.total += value * count
        if value > self._greatest:
            self._greatest = value
        microseconds = round(value * 1e6)
        if microseconds >> 8:  # _bucket() for all but the shortest, without the call
            microseconds = min(microseconds, _LONGEST)
            shift = microseconds.bit_length() - 8
            bucket = (shift << _BITS) + (microseconds >> shift)
        else:
            bucket = microseconds
        buckets = self._buckets
        buckets[bucket] = buckets.get(bucket, 0) + count

    def absorb(self, other: Summary) -> None:
        """Count the values of ``other``, a histogram, as well."""
        super().absorb(other)
        if isinstance(other, LatencyHistogram):
            for bucket, count in list(other._buckets.items()):
                self._buckets[bucket] = self._buckets.get(bucket, 0) + count

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
        last = _bucket(min(max(0, round(seconds * 1e6)), _LONGEST))
        return sum(count for bucket, count in list(self._buckets.items()) if bucket <= last)


class Latencies(NamedTuple):
    """The times of records since the producer's start, whole and in parts, in seconds."""

    record: LatencyHistogram
    """From the ``send()`` call to the acknowledgement; one value for each delivered record. Records
    sent within 50 µs of each other into one batch count with the time of the first. Both ends are
    times of the wall clock: a step of it counts in the records that are under way."""
    wait: LatencyHistogram
    """Waits for metadata or memory; one value for each record that waited."""
    queue: LatencyHistogram
    """From the creation of a batch to the request that carries it; one value for each attempt."""
    request: LatencyHistogram
    """From a produce request to its response: the network and the broker."""
    broker: LatencyHistogram
    """The same without the round-trip time that the kernel has measured on the connection. Linux
    alone tells it; elsewhere there are no values."""


def _bucket(microseconds: int) -> int:
    """Below ``2 ** (_BITS + 1)`` each number has a bucket; above, a power of two has 2 ** _BITS."""
    shift = max(0, microseconds.bit_length() - _BITS - 1)
    return (shift << _BITS) + (microseconds >> shift)


def _upper_bound(bucket: int) -> int:
    """The longest time of a bucket, in microseconds."""
    shift = max(0, (bucket >> _BITS) - 1)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1
