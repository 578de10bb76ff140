"""Counts as brokers want them: their growth since the last push, or since the start."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as some

from aioproducer.engine.metrics.names import TOPIC_METRICS
from aioproducer.engine.telemetry.payload import Collected, Collector, Temporality, metrics_data
from aioproducer.engine.telemetry.subscription import producer_groups, selected
from aioproducer.foundation.tuning import TELEMETRY_POINTS_PER_TURN
from tests.unit.telemetry.snapshots import START_NS, Point, collect, points, snapshot

SENT = "org.apache.kafka.producer.record.send.total"
BY_TOPIC = "org.apache.kafka.producer.topic.record.send.total"
CUMULATIVE = Temporality.CUMULATIVE


def read(collected: Collected) -> list[Point]:
    return points(metrics_data({}, ("aioproducer", "1"), collected.groups.values()))


def growth(collected: Collected, name: str = SENT, **attributes: str) -> tuple[float, int, int]:
    (found,) = [p for p in read(collected) if (p.name, p.attributes) == (name, attributes)]
    return found.value, found.start_ns, found.time_ns


def test_gauges_and_counts_with_their_attributes() -> None:
    of = snapshot(7, {"orders": 5, "events": 2}, 1.5)
    assert read(collect(Collector(START_NS, producer_groups()), of, 2_000)) == [
        Point("org.apache.kafka.producer.record.queue.time.avg", "gauge", {}, 1.5, 0, 2_000),
        Point(SENT, "delta", {}, 7, START_NS, 2_000),
        Point(
            "org.apache.kafka.producer.node.request.latency.avg",
            "gauge",
            {"node_id": "node-1"},
            1.5,
            0,
            2_000,
        ),
        Point(BY_TOPIC, "delta", {"topic": "orders"}, 5, START_NS, 2_000),
        Point(BY_TOPIC, "delta", {"topic": "events"}, 2, START_NS, 2_000),
    ]


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_values_that_are_no_numbers_are_left_out(value: float) -> None:
    found = read(collect(Collector(START_NS, producer_groups()), snapshot(1, average=value), 2_000))
    assert [point.name for point in found] == [SENT]


def test_only_what_was_asked_for() -> None:
    of = snapshot(7, {"orders": 5}, 1.5)
    found = read(collect(Collector(START_NS, producer_groups()), of, 2_000, prefixes=[SENT]))
    assert [point.name for point in found] == [SENT]


def test_a_delta_begins_where_the_acknowledged_one_ended() -> None:
    collector = Collector(START_NS, producer_groups())
    first = collect(collector, snapshot(10), 2_000)
    assert growth(first) == (10, START_NS, 2_000)
    collector.acknowledge(first)
    second = collect(collector, snapshot(15), 3_000)
    assert growth(second) == (5, 2_000, 3_000)
    # The broker has refused it, or the connection was lost.
    third = collect(collector, snapshot(19), 4_000)
    assert growth(third) == (9, 2_000, 4_000)
    collector.acknowledge(third)
    assert growth(collect(collector, snapshot(19), 5_000)) == (0, 4_000, 5_000)


def test_a_cumulative_count_begins_at_the_start() -> None:
    collector = Collector(START_NS, producer_groups())
    for now, sent in ((2_000, 10), (3_000, 15), (4_000, 15)):
        collected = collect(collector, snapshot(sent), now, CUMULATIVE)
        assert growth(collected) == (sent, START_NS, now)
        collector.acknowledge(collected)


def test_another_temporality_begins_anew_at_the_start() -> None:
    collector = Collector(START_NS, producer_groups())
    collector.acknowledge(collect(collector, snapshot(10), 2_000))
    cumulative = collect(collector, snapshot(12), 3_000, CUMULATIVE)
    assert growth(cumulative) == (12, START_NS, 3_000)
    collector.acknowledge(cumulative)
    assert growth(collect(collector, snapshot(13), 4_000)) == (13, START_NS, 4_000)


def test_a_topic_that_is_new_has_all_of_its_records_in_its_first_delta() -> None:
    collector = Collector(START_NS, producer_groups())
    collector.acknowledge(collect(collector, snapshot(1, {"a": 1}), 2_000))
    collected = collect(collector, snapshot(4, {"a": 1, "b": 3}), 3_000)
    assert growth(collected, BY_TOPIC, topic="a") == (0, 2_000, 3_000)
    assert growth(collected, BY_TOPIC, topic="b") == (3, START_NS, 3_000)


def test_a_metric_that_was_not_asked_for_in_between_loses_nothing() -> None:
    collector = Collector(START_NS, producer_groups())
    of = snapshot(1, {"a": 1})
    collector.acknowledge(collect(collector, of, 2_000))
    collector.acknowledge(collect(collector, snapshot(2, {"a": 2}), 3_000, prefixes=[SENT]))
    collected = collect(collector, snapshot(4, {"a": 4}), 4_000)
    assert growth(collected) == (2, 3_000, 4_000)
    assert growth(collected, BY_TOPIC, topic="a") == (3, 2_000, 4_000)


def test_a_topic_that_was_forgotten_and_came_back_is_counted_from_zero() -> None:
    collector = Collector(START_NS, producer_groups())
    for temporality, expected in (
        (Temporality.DELTA, (2, 2_000, 3_000)),
        (CUMULATIVE, (2, 2_000, 3_000)),
    ):
        collector.acknowledge(collect(collector, snapshot(9, {"a": 9}), 2_000, temporality))
        back = collect(collector, snapshot(11, {"a": 2}), 3_000, temporality)
        assert growth(back, BY_TOPIC, topic="a") == expected


def test_a_topic_that_is_gone_takes_no_memory() -> None:
    collector = Collector(START_NS, producer_groups())
    for number in range(10):
        collected = collect(collector, snapshot(1, {f"topic-{number}": 1}), 2_000)
        collector.acknowledge(collected)
    assert sum(map(len, collector._acknowledged.values())) == 2


@given(some.lists(some.tuples(some.integers(0, 100), some.booleans()), min_size=1))
def test_the_deltas_that_were_taken_add_up_to_the_count(rounds: list[tuple[int, bool]]) -> None:
    collector = Collector(START_NS, producer_groups())
    total, taken, ends, now = 0, 0.0, [START_NS], START_NS
    for more, is_taken in [*rounds, (0, True)]:
        total, now = total + more, now + 1
        collected = collect(collector, snapshot(total), now)
        value, start, end = growth(collected)
        assert start == ends[-1]
        if is_taken:
            collector.acknowledge(collected)
            taken += value
            ends.append(end)
    assert taken == total
    assert all(earlier < later for earlier, later in pairwise(ends))


def test_many_topics_are_encoded_in_small_steps() -> None:
    topics = {f"topic-{number}": 1.0 for number in range(5 * TELEMETRY_POINTS_PER_TURN)}
    steps = Collector(START_NS, producer_groups()).collect(
        snapshot(1, topics), selected([""], producer_groups()), Temporality.DELTA, 2_000
    )
    assert len(list(steps)) == 5 * (1 + len(TOPIC_METRICS))
