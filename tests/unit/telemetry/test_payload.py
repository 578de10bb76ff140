"""The payload of telemetry: names and their choice, growth of counts, OTLP, codecs, room."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from aioproducer.engine.metrics.names import GAUGES, NODE_METRICS, PRODUCER_METRICS, TOPIC_METRICS
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.encoded_batch import decompress
from aioproducer.engine.telemetry.payload import (
    Collected,
    Collector,
    Temporality,
    first_available,
    fitting,
    gauge,
    gauge_point,
    metrics_data,
    point_heads,
    sum_,
    sum_point,
)
from aioproducer.engine.telemetry.subscription import (
    Selection,
    is_sum,
    producer_groups,
    selected,
    telemetry_name,
)
from aioproducer.engine.telemetry.subscription import selected as selected_of
from aioproducer.foundation.codecs import load_codecs
from aioproducer.foundation.tuning import TELEMETRY_POINTS_PER_TURN
from tests.unit.telemetry.snapshots import START_NS, Point, collect, points, snapshot

REQUIRED = {
    "org.apache.kafka.producer.connection.creation.rate",
    "org.apache.kafka.producer.connection.creation.total",
    "org.apache.kafka.producer.node.request.latency.avg",
    "org.apache.kafka.producer.node.request.latency.max",
    "org.apache.kafka.producer.produce.throttle.time.avg",
    "org.apache.kafka.producer.produce.throttle.time.max",
    "org.apache.kafka.producer.record.queue.time.avg",
    "org.apache.kafka.producer.record.queue.time.max",
}
"""KIP-714: the metrics that every producer has to provide."""

GROUPS = producer_groups()


def selection(prefixes: Collection[str]) -> Selection:
    return selected_of(prefixes, GROUPS)


EVERYTHING = selection([""])


def names(*prefixes: str) -> set[str]:
    return {telemetry_name(GROUPS[group], name) for group, name in selection(prefixes)}


def test_every_metric_of_a_snapshot_can_be_chosen() -> None:
    tables = (PRODUCER_METRICS, GAUGES, NODE_METRICS, TOPIC_METRICS)
    assert len(EVERYTHING) == sum(map(len, tables))
    assert len(names("")) == len(EVERYTHING)


def test_the_required_metrics_have_the_names_of_the_kip() -> None:
    assert names("") >= REQUIRED
    for name in REQUIRED:
        assert name in names(name)


@pytest.mark.parametrize("prefixes", [["*"], ["", "x"], ["org.apache.kafka"], ["o", "org."]])
def test_everything(prefixes: list[str]) -> None:
    assert selection(prefixes) == EVERYTHING


@pytest.mark.parametrize(
    "prefixes",
    [[], ["org.apache.kafka.consumer."], ["kafka"], ["org.apache.kafka.producer.topic.zzz", "**"]],
)
def test_nothing(prefixes: list[str]) -> None:
    assert selection(prefixes) == frozenset()


def test_a_prefix() -> None:
    assert names("org.apache.kafka.producer.record.queue.time.a", "org.apache.kafka.admin") == {
        "org.apache.kafka.producer.record.queue.time.avg"
    }
    assert {group for group, _ in selection(["org.apache.kafka.producer.topic."])} == {
        "producer-topic-metrics"
    }


def test_sums_are_the_counts_since_the_start() -> None:
    assert is_sum("record-send-total")
    assert is_sum("flush-time-ns-total")
    assert not is_sum("record-send-rate")
    assert not is_sum("buffer-total-bytes")


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


SCOPE = ("aioproducer", "1.2.3")
TIMES = some.integers(0, 2**64 - 1)
TEXTS = some.text(max_size=400)
PAIRS = some.dictionaries(TEXTS, TEXTS, max_size=4)
VALUES = some.floats(allow_nan=False)


def attributes(of: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in of.attributes}


def decoded(data: bytes) -> Any:
    """The message; a field that its schema lacks is an error."""
    message = MetricsData.FromString(data)
    known = MetricsData.FromString(data)
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize()
    return message


def test_nothing_is_a_message_too() -> None:
    (resource,) = decoded(metrics_data({}, SCOPE, ())).resource_metrics
    assert attributes(resource.resource) == {}
    (scope,) = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == SCOPE
    assert len(scope.metrics) == 0


@given(resource=PAIRS, name=TEXTS, tags=PAIRS, time=TIMES, value=VALUES)
def test_a_gauge(
    resource: dict[str, str], name: str, tags: dict[str, str], time: int, value: float
) -> None:
    points = gauge_point(point_heads(tags), time, value) + gauge_point(point_heads({}), 7, 0.5)
    data = decoded(metrics_data(resource, SCOPE, [gauge(name, points)]))
    (found,) = data.resource_metrics
    assert attributes(found.resource) == resource
    (metric,) = found.scope_metrics[0].metrics
    assert metric.name == name
    assert metric.WhichOneof("data") == "gauge"
    first, second = metric.gauge.data_points
    assert attributes(first) == tags
    assert (first.time_unix_nano, first.as_double) == (time, value)
    assert first.WhichOneof("value") == "as_double"
    assert first.start_time_unix_nano == 0
    assert (second.time_unix_nano, second.as_double) == (7, 0.5)


@given(name=TEXTS, tags=PAIRS, start=TIMES, time=TIMES, value=VALUES)
def test_a_sum(name: str, tags: dict[str, str], start: int, time: int, value: float) -> None:
    point = sum_point(point_heads(tags), start, time, value)
    metrics = [sum_(name, point, temporality) for temporality in Temporality]
    data = decoded(metrics_data({}, SCOPE, metrics))
    delta, cumulative = data.resource_metrics[0].scope_metrics[0].metrics
    assert delta.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert (
        cumulative.sum.aggregation_temporality
        == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    for metric in (delta, cumulative):
        assert metric.name == name
        assert metric.sum.is_monotonic
        (found,) = metric.sum.data_points
        assert attributes(found) == tags
        assert (found.start_time_unix_nano, found.time_unix_nano) == (start, time)
        assert found.as_double == value


def test_a_lone_surrogate_is_no_reason_to_fail() -> None:
    data = decoded(metrics_data({"transactional_id": "a\ud800b"}, SCOPE, ()))
    assert attributes(data.resource_metrics[0].resource) == {"transactional_id": "a?b"}


SMALL_GROUPS = {
    name: gauge(name, b"".join(gauge_point(point_heads({"t": str(n)}), 5, n) for n in range(count)))
    for name, count in (("few", 1), ("some", 10), ("many", 1000))
}
RESOURCE = {"transactional_id": "t"}


@pytest.mark.parametrize(
    ("accepted", "name"),
    [
        ((4, 3, 1, 2), "zstd"),
        ((3, 4), "lz4"),
        ((1,), "gzip"),
        ((2, 1), "snappy"),
        ((99, -1, 2**31, 1), "gzip"),
        ((), None),
        ((0, 4), None),
        ((99,), None),
    ],
)
def test_the_first_codec_that_the_broker_names(accepted: tuple[int, ...], name: str | None) -> None:
    load_codecs()
    chosen = first_available(accepted, ())
    assert (None if chosen is None else chosen.name) == name


def test_a_codec_that_a_broker_has_refused_is_skipped() -> None:
    load_codecs()
    chosen = first_available((4, 3), {4})
    assert chosen is not None
    assert chosen.name == "lz4"
    assert first_available((4, 3), {4, 3}) is None


def test_a_codec_whose_library_is_not_loaded_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    load_codecs()
    monkeypatch.delitem(sys.modules, "zstandard")
    chosen = first_available((4, 3), ())
    assert chosen is not None
    assert chosen.name == "lz4"


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_everything_where_there_is_room(name: str) -> None:
    codec = compression(name)
    payload = fitting(SMALL_GROUPS, RESOURCE, codec, 100_000)
    assert payload is not None
    assert payload.left_out == ()
    assert payload.compression_id == (0 if codec is None else codec.id)
    data = bytes(decompress(payload.compression_id, memoryview(payload.data), 1_000_000))
    assert len(points(data)) == 1011


def test_the_largest_groups_are_left_out_first() -> None:
    payload = fitting(SMALL_GROUPS, RESOURCE, None, 1_000)
    assert payload is not None
    assert payload.left_out == ("many",)
    assert len(payload.data) <= 1_000
    assert len(points(payload.data)) == 11
    least = fitting(SMALL_GROUPS, RESOURCE, None, 100)
    assert least is not None
    assert least.left_out == ("some", "many")
    assert fitting(SMALL_GROUPS, RESOURCE, None, 10) is None
    assert fitting({}, RESOURCE, None, 1_000) is None
