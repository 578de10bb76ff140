"""Snapshots of metrics, and their telemetry as OpenTelemetry reads it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from math import nan
from typing import Any, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from aioproducer.engine.metrics import MetricsSnapshot
from aioproducer.engine.telemetry.payload import Collected, Collector, Temporality
from aioproducer.engine.telemetry.subscription import producer_groups, selected

START_NS = 1_000


def snapshot(
    sent: float = 0.0, topics: Mapping[str, float] | None = None, average: float = nan
) -> MetricsSnapshot:
    """A snapshot with a count, a gauge, and a count by topic."""
    return {
        "producer-metrics": {"record-send-total": sent, "record-queue-time-avg": average},
        "producer-topic-metrics": {
            topic: {"record-send-total": count} for topic, count in (topics or {}).items()
        },
        "producer-node-metrics": {"node-1": {"request-latency-avg": average}},
    }


class Point(NamedTuple):
    """A data point, with what identifies it and its metric."""

    name: str
    kind: str
    """``gauge``, ``delta`` or ``cumulative``."""
    attributes: Mapping[str, str]
    value: float
    start_ns: int
    time_ns: int


def points(metrics: bytes | Any) -> list[Point]:
    """The data points of a ``MetricsData``."""
    data = MetricsData.FromString(metrics) if isinstance(metrics, bytes) else metrics
    return [
        Point(
            metric.name,
            _kind(metric),
            {pair.key: pair.value.string_value for pair in point.attributes},
            point.as_double,
            point.start_time_unix_nano,
            point.time_unix_nano,
        )
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    ]


def _kind(metric: Any) -> str:
    if metric.WhichOneof("data") == "gauge":
        return "gauge"
    assert metric.sum.is_monotonic
    kinds = {
        AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA: "delta",
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE: "cumulative",
    }
    return kinds[metric.sum.aggregation_temporality]


def finished(steps: Generator[None, None, Collected]) -> Collected:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            collected: Collected = end.value
            return collected


def collect(
    collector: Collector,
    of: MetricsSnapshot,
    now_ns: int,
    temporality: Temporality = Temporality.DELTA,
    prefixes: Iterable[str] = ("",),
) -> Collected:
    """The metrics of ``prefixes`` at once."""
    return finished(
        collector.collect(of, selected(list(prefixes), producer_groups()), temporality, now_ns)
    )
