"""Latencies in buckets: percentiles of any number of records, in bounded memory. Pure."""

from __future__ import annotations

from operator import add
from typing import Final

__all__ = ["LatencyHistogram"]

_BITS: Final = 7
"""Buckets per power of two, as a power of two: a percentile is at most 1/128 too high."""
_LONGEST: Final = (1 << 36) - 1
"""Microseconds, 19 hours; longer ones count as this."""


class LatencyHistogram:
    """Counts by latency, in buckets that grow with it (as of HdrHistogram)."""

    def __init__(self) -> None:
        self._counts = [0] * (_bucket(_LONGEST) + 1)
        self._sum = 0.0
        self.count = 0
        self.max = 0.0
        """The longest latency, in seconds."""

    def add(self, latency: float, count: int = 1) -> None:
        """Count ``count`` records that took ``latency`` seconds each."""
        microseconds = min(max(0, round(latency * 1e6)), _LONGEST)
        self._counts[_bucket(microseconds)] += count
        self._sum += latency * count
        self.count += count
        self.max = max(self.max, latency)

    def merge(self, other: LatencyHistogram) -> None:
        """Count the latencies of ``other`` as well."""
        self._counts = list(map(add, self._counts, other._counts))
        self._sum += other._sum
        self.count += other.count
        self.max = max(self.max, other.max)

    @property
    def mean(self) -> float:
        """The mean latency, in seconds; 0 without records."""
        return self._sum / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The latency, in seconds, that ``percent`` percent of the records did not exceed.

        ``percent`` has at most one decimal.
        """
        tenths = round(percent * 10)  # a float product may be just above a whole rank
        rank = max(1, -(-self.count * tenths // 1000))  # rounded up
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= rank:
                return min(_upper_bound(bucket) / 1e6, self.max)
        return 0.0


def _bucket(microseconds: int) -> int:
    """Below ``2 ** (_BITS + 1)`` each number has a bucket; above, a power of two has 2 ** _BITS."""
    shift = max(0, microseconds.bit_length() - _BITS - 1)
    return (shift << _BITS) + (microseconds >> shift)


def _upper_bound(bucket: int) -> int:
    """The longest latency of a bucket, in microseconds."""
    shift = max(0, (bucket >> _BITS) - 1)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1
