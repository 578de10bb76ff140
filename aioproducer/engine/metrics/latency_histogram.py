"""Times in buckets: percentiles of any number of values, in bounded memory."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

from aioproducer.engine.metrics.summary import BITS, LONGEST, Summary, bucket_of

__all__ = ["Latencies", "LatencyHistogram"]


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
    """The same without the round-trip time that the kernel has measured on the connection. Only
    Linux reports it; elsewhere there are no values."""


def _upper_bound(bucket: int) -> int:
    """The longest time of a bucket, in microseconds."""
    shift = max(0, (bucket >> BITS) - 1)
    return ((bucket - (shift << BITS) + 1) << shift) - 1
