"""The snapshot of all metrics, computed from the counts.

A producer that is never asked for its metrics does not import the list of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from aioproducer.engine.metrics.names import (
    GAUGES,
    NODE_METRICS,
    PRODUCER_METRICS,
    TOPIC_METRICS,
    Metric,
    Whole,
)
from aioproducer.engine.metrics.windows import Counts, Reading

if TYPE_CHECKING:
    from aioproducer.engine.metrics.producer_metrics import MetricsSnapshot

__all__ = ["snapshot_of"]

_S = TypeVar("_S")

_GAUGE_NAMES = frozenset(gauge.name for gauge in GAUGES)


def snapshot_of(reading: Reading[Counts], gauges: Mapping[str, float]) -> MetricsSnapshot:
    """All metrics by ``reading`` and ``gauges``. Raises as :meth:`ProducerMetrics.snapshot`."""
    if gauges.keys() != _GAUGE_NAMES:
        wrong = ", ".join(sorted(gauges.keys() ^ _GAUGE_NAMES))
        raise ValueError(f"gauges must be the ones of names.GAUGES; missing or unknown: {wrong}")
    recent, ever, elapsed = reading.recent, reading.ever, reading.elapsed
    producer = _read(PRODUCER_METRICS, Reading(_whole(recent), _whole(ever), elapsed))
    return {
        "producer-metrics": producer | {name: float(gauges[name]) for name in gauges},
        "producer-topic-metrics": {
            topic: _read(TOPIC_METRICS, Reading(recent.topics.by_key[topic], stats, elapsed))
            for topic, stats in ever.topics.by_key.items()
        },
        "producer-node-metrics": {
            f"node-{node_id}": _read(
                NODE_METRICS, Reading(recent.nodes.by_key[node_id], stats, elapsed)
            )
            for node_id, stats in ever.nodes.by_key.items()
        },
    }


def _whole(counts: Counts) -> Whole:
    return Whole(counts.client, counts.topics.whole(), counts.nodes.whole())


def _read(metrics: Iterable[Metric[_S]], reading: Reading[_S]) -> dict[str, float]:
    return {metric.name: float(metric.measure(reading)) for metric in metrics}
