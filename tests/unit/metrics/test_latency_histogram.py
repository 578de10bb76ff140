"""Percentiles from buckets are those of the sorted latencies, but for the width of a bucket."""

from __future__ import annotations

from math import isnan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.metrics import LatencyHistogram

WIDTH = 1 / 128
PERCENTS = (0.1, 50, 95, 99, 99.9, 100)


def exact(latencies: list[float], percent: float) -> float:
    rank = max(1, -(-len(latencies) * percent // 100))
    return sorted(latencies)[int(rank) - 1]


def test_it_is_readable() -> None:
    histogram = LatencyHistogram()
    assert repr(histogram) == "<LatencyHistogram without values>"
    histogram.add(0.0015, 1_999)
    histogram.add(2.0)
    expected = "<LatencyHistogram of 2,000 values: p50 1.50 ms, p99 1.50 ms, max 2000.00 ms>"
    assert repr(histogram) == expected


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=200))
def test_percentiles_are_at_most_a_bucket_too_high(microseconds: list[int]) -> None:
    histogram = LatencyHistogram()
    latencies = [number / 1e6 for number in microseconds]
    for latency in latencies:
        histogram.add(latency)
    for percent in PERCENTS:
        right = exact(latencies, percent)
        assert right - 1e-9 <= histogram.percentile(percent) <= right * (1 + WIDTH) + 1e-6
    assert histogram.max == max(latencies)
    assert histogram.mean == pytest.approx(sum(latencies) / len(latencies))


def test_counts_together_are_counts_one_by_one() -> None:
    random = Random(1)
    together, one_by_one = LatencyHistogram(), LatencyHistogram()
    for _ in range(100):
        latency, count = random.random(), random.randrange(1, 50)
        together.add(latency, count)
        for _ in range(count):
            one_by_one.add(latency)
    assert together.count == one_by_one.count
    assert together.mean == pytest.approx(one_by_one.mean)
    assert [together.percentile(p) for p in PERCENTS] == [
        one_by_one.percentile(p) for p in PERCENTS
    ]


def test_merged_histograms_are_one() -> None:
    first, second, both = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    for number in range(1, 1000):
        (first if number % 3 else second).add(number / 1000)
        both.add(number / 1000)
    first.absorb(second)
    assert (first.count, first.max) == (both.count, both.max)
    assert [first.percentile(p) for p in PERCENTS] == [both.percentile(p) for p in PERCENTS]


def test_without_latencies_there_are_no_figures() -> None:
    histogram = LatencyHistogram()
    assert histogram.count == 0
    assert all(map(isnan, (histogram.mean, histogram.max, histogram.percentile(99))))


def test_absurd_latencies_are_counted() -> None:
    histogram = LatencyHistogram()
    histogram.add(-1.0)
    histogram.add(1e12)
    assert histogram.count == 2
    assert histogram.percentile(1) == 0.0
    assert histogram.percentile(100) > 60_000


def test_the_rank_of_a_percentile_is_exact() -> None:
    histogram = LatencyHistogram()
    histogram.add(0.000_100, 40_959)  # 99.9 % of 41,000
    histogram.add(1.0, 41)
    assert histogram.percentile(99.9) == pytest.approx(0.000_100)
