"""Counts, windows and latencies: percentiles are the sorted latencies', but for a bucket."""

from __future__ import annotations

import gc
import math
import sys
import threading
from dataclasses import dataclass
from math import isnan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.metrics import LatencyHistogram
from aioproducer.engine.metrics.counts import (
    ClientStats,
    NodeStats,
    Stats,
    Summary,
    TopicStats,
    Windows,
)

WIDTH = 30.0
START = 1_000.0


def windows(num_samples: int = 2) -> Windows:
    return Windows(num_samples=num_samples, sample_window=WIDTH, now=START)


@pytest.mark.parametrize(
    ("num_samples", "age", "elapsed"),
    [
        (2, 0.0, 30.0),
        (2, 5.0, 35.0),
        (2, 29.0, 59.0),
        (2, 30.0, 30.0),
        (2, 45.0, 45.0),
        (2, 60.0, 60.0),
        (2, 89.0, 89.0),
        (2, 90.0, 60.0),
        (2, 1_000_015.0, 60.0 + 1_000_015.0 % 30),
        (1, 0.0, 0.001),
        (1, 10.0, 10.0),
        (1, 40.0, 40.0),
        (1, 70.0, 40.0),
        (4, 0.0, 90.0),
        (4, 31.0, 91.0),
    ],
)
def test_elapsed_is_at_least_all_windows_but_one(
    num_samples: int, age: float, elapsed: float
) -> None:
    assert windows(num_samples).read(START + age).elapsed == pytest.approx(elapsed)


@pytest.mark.parametrize(
    ("age", "recent"),
    [(0.0, 1), (29.9, 1), (30.0, 1), (60.0, 1), (89.9, 1), (90.0, 0), (1e9, 0)],
)
def test_an_event_is_recent_until_its_window_is_too_old(age: float, recent: int) -> None:
    row = windows()
    row.at(START).client.flush.add(1)
    span = row.read(START + age)
    assert (span.recent.client.flush.count, span.ever.client.flush.count) == (recent, 1)


def test_a_clock_that_lags_counts_in_the_current_window() -> None:
    row = windows()
    row.at(START + 100).client.flush.add(1)
    row.at(START - 5).client.flush.add(1)
    span = row.read(START + 50)
    assert span.recent.client.flush.count == 2
    assert span.elapsed > 0


def test_what_is_read_is_a_copy() -> None:
    row = windows()
    span = row.read(START)
    span.recent.client.flush.add(1)
    span.ever.topics.by_key["orders"].records_sent += 1
    assert row.read(START).ever.client.flush.count == 0
    assert not row.read(START).ever.topics.by_key


def test_a_window_whose_end_rounds_down_is_still_followed_by_the_next() -> None:
    origin, width = 0.7, 0.3
    ends = origin + 2 * width
    assert (ends - origin) // width == 1, "the premise: the grid says the second window still runs"
    row = Windows(num_samples=2, sample_window=width, now=origin)
    before = row.at(ends - 0.01)
    after = row.at(ends)
    assert after is not before
    assert row.at(ends) is after


@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), max_size=60), st.floats(0.001, 1e3))
def test_windows_are_few_and_nothing_is_lost(steps: list[float], width: float) -> None:
    row = Windows(num_samples=3, sample_window=width, now=START)
    now = START
    for step in steps:
        now += step
        row.at(now).client.flush.add(1)
        assert len(row._live) <= 4
    assert row.read(now).ever.client.flush.count == len(steps)


@dataclass(frozen=True)
class Event:
    wait: int
    topic: str
    value: int


EVENTS = st.lists(
    st.builds(
        Event,
        wait=st.sampled_from([0, 0, 1, 7, 29, 30, 31, 90, 100_000]),
        topic=st.sampled_from(["a", "b", "c"]),
        value=st.integers(0, 1_000),
    ),
    max_size=50,
)


@given(EVENTS, st.integers(0, 200), st.integers(1, 4))
def test_matches_the_list_of_all_events(events: list[Event], wait: int, num_samples: int) -> None:
    row = windows(num_samples)
    log: list[tuple[int, Event]] = []
    age = 0
    for event in events:
        age += event.wait
        row.at(START + age).topics.by_key[event.topic].records_sent += event.value
        log.append((age, event))
    age += wait
    span = row.read(START + age)

    oldest = (age // 30 - num_samples) * 30
    for topic in ("a", "b", "c"):
        ever = [event.value for _, event in log if event.topic == topic]
        recent = [event.value for at, event in log if event.topic == topic and at >= oldest]
        assert span.ever.topics.by_key[topic].records_sent == sum(ever)
        assert span.recent.topics.by_key[topic].records_sent == sum(recent)
    assert span.recent.topics.whole().records_sent == sum(
        event.value for at, event in log if at >= oldest
    )
    assert span.elapsed == max(age - max(oldest, 0), (num_samples - 1) * 30 + age % 30, 0.001)


@given(EVENTS, st.sampled_from(["a", "b", "c"]))
def test_forgetting_a_topic_keeps_the_whole(events: list[Event], forgotten: str) -> None:
    row = windows()
    now = START
    for event in events:
        now += event.wait
        row.at(now).topics.by_key[event.topic].records_sent += event.value
    before = row.read(now)
    row.forget_topic(forgotten)
    row.forget_topic("never seen")
    after = row.read(now)
    assert after.recent.topics.whole() is not before.recent.topics.whole()
    for was, stays in ((before.recent, after.recent), (before.ever, after.ever)):
        first, second = was.topics.whole(), stays.topics.whole()
        assert all(getattr(first, each) == getattr(second, each) for each in TopicStats.__slots__)
        assert forgotten not in stays.topics.by_key


def test_a_reading_moves_no_window() -> None:
    row = windows()
    row.at(START).topics.by_key["orders"].records_sent += 1
    assert row.read(START + 1e6).recent.topics.whole().records_sent == 0
    before = row.read(START)
    assert (before.recent.topics.whole().records_sent, before.elapsed) == (1, 30.0)


def test_any_thread_reads_while_counts_move() -> None:
    """Totals never go back, and no reading fails."""
    row = windows()
    row.at(START).topics.by_key["orders"].records_sent += 1
    done = threading.Event()
    readings: list[int] = []

    def read() -> None:
        while not done.is_set():
            now = START + len(readings) * WIDTH
            readings.append(row.read(now).ever.topics.whole().records_sent)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for step in range(1, 3_000):
            row.at(START + step * WIDTH).topics.by_key[f"orders-{step}"].records_sent += 1
            if step % 3 == 0:
                row.forget_topic(f"orders-{step - 1}")
            while len(readings) < step // 100:
                assert reader.is_alive()
    finally:
        done.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert readings == sorted(readings)
    assert row.read(START).ever.topics.whole().records_sent == 3_000


BUCKET = 1 / 128
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
        assert right - 1e-9 <= histogram.percentile(percent) <= right * (1 + BUCKET) + 1e-6
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


NUMBERS = st.lists(st.integers(-(10**12), 10**12))


def summary_of(values: list[int]) -> Summary:
    summary = Summary()
    for value in values:
        summary.add(value)
    return summary


@given(NUMBERS, NUMBERS)
def test_absorbing_is_having_counted_both(left: list[int], right: list[int]) -> None:
    summary = summary_of(left)
    summary.absorb(summary_of(right))
    everything = left + right
    assert summary.count == len(everything)
    assert summary.total == sum(everything)
    if everything:
        assert summary.mean == sum(everything) / len(everything)
        assert summary.max == max(everything)
    else:
        assert math.isnan(summary.mean)
        assert math.isnan(summary.max)


@pytest.mark.parametrize("kind", [TopicStats, NodeStats, ClientStats])
def test_a_struct_absorbs_each_of_its_fields(kind: type[Stats]) -> None:
    into, other = kind(), kind()
    names = [*kind.__annotations__]
    for value, name in enumerate(names, start=1):
        counted = getattr(other, name)
        if isinstance(counted, Summary):
            counted.add(value)
        else:
            setattr(other, name, value)
    into.absorb(other)
    into.absorb(other)
    for value, name in enumerate(names, start=1):
        counted = getattr(into, name)
        total = counted.total if isinstance(counted, Summary) else counted
        assert total == 2 * value
    assert names, "a struct without fields would count nothing"


def test_a_topic_is_one_object_for_the_garbage_collector() -> None:
    assert [each for each in gc.get_referents(TopicStats()) if gc.is_tracked(each)] == [TopicStats]
