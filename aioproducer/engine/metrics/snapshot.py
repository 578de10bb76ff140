"""The snapshot of all metrics, computed from the counts.

A producer that is never asked for its metrics does not import the list of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from aioproducer.engine.metrics.names import (
    GAUGES,
    NODE_METRICS,
    PRODUCER_METRICS,
    TOPIC_METRICS,
    Metric,
    Whole,
)
from aioproducer.engine.metrics.stats import NodeStats
from aioproducer.engine.metrics.windows import Counts, Reading

if TYPE_CHECKING:
    from aioproducer.engine.metrics.producer_metrics import MetricsSnapshot

__all__ = ["snapshot_of", "values_by_node", "values_of", "values_of_whole"]

_S = TypeVar("_S")

_GAUGE_NAMES = frozenset(gauge.name for gauge in GAUGES)


def snapshot_of(reading: Reading[Counts], gauges: Mapping[str, float]) -> MetricsSnapshot:
    """All metrics by ``reading`` and ``gauges``. Raises as :meth:`ProducerMetrics.snapshot`."""
    if gauges.keys() != _GAUGE_NAMES:
        wrong = ", ".join(sorted(gauges.keys() ^ _GAUGE_NAMES))
        raise ValueError(f"gauges must be the ones of names.GAUGES; missing or unknown: {wrong}")
    recent, ever, elapsed = reading.recent, reading.ever, reading.elapsed
    producer = values_of_whole(PRODUCER_METRICS, reading)
    return {
        "producer-metrics": producer | {name: float(gauges[name]) for name in gauges},
        "producer-topic-metrics": {
            topic: values_of(TOPIC_METRICS, Reading(recent.topics.by_key[topic], stats, elapsed))
            for topic, stats in ever.topics.by_key.items()
        },
        "producer-node-metrics": values_by_node(NODE_METRICS, reading),
    }


def values_of_whole(metrics: Iterable[Metric[Whole]], reading: Reading[Counts]) -> dict[str, float]:
    """Metrics of a client as a whole."""
    whole = Reading(_whole(reading.recent), _whole(reading.ever), reading.elapsed)
    return values_of(metrics, whole)


def values_by_node(
    metrics: Collection[Metric[NodeStats]], reading: Reading[Counts]
) -> dict[str, dict[str, float]]:
    """Metrics of each broker, by ``node-<id>``."""
    recent = reading.recent.nodes.by_key
    return {
        f"node-{node_id}": values_of(metrics, Reading(recent[node_id], stats, reading.elapsed))
        for node_id, stats in reading.ever.nodes.by_key.items()
    }


def _whole(counts: Counts) -> Whole:
    return Whole(counts.client, counts.topics.whole(), counts.nodes.whole())


def values_of(metrics: Iterable[Metric[_S]], reading: Reading[_S]) -> dict[str, float]:
    """Metrics of one object."""
    return {metric.name: float(metric.measure(reading)) for metric in metrics}
