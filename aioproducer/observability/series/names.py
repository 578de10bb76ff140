"""The names and units of Kafka's metrics in Prometheus.

The names are those that Micrometer, and so Spring, gives the metrics of the Java producer:
``kafka_producer_`` for the producer, ``kafka_producer_topic_`` and ``kafka_producer_node_`` for a
topic and a broker, and ``_`` in place of ``-``. A total is a counter. Everything else is a gauge in
Kafka's unit. Two exceptions follow the rules that ``promtool check metrics`` checks: a total of
nanoseconds is one of seconds, and ``connection-count`` is ``connections``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from aioproducer.engine.metrics.names import (
    GROUPS,
    Gauge,
)
from aioproducer.observability.series.family import Kind

__all__ = ["NODE_SERIES", "PRODUCER_SERIES", "TOPIC_SERIES", "KafkaSeries"]

_TIME_TOTAL: Final = "-time-ns-total"
_RENAMED: Final = {"connection-count": "connections"}
_PERCENTILE: Final = re.compile(r"-p\d+$")


class KafkaSeries(NamedTuple):
    """One of Kafka's metrics, as Prometheus gets it."""

    kafka_name: str
    name: str
    """The name of the family, a counter's without ``_total``."""
    kind: Kind
    meaning: str
    unit: str
    scale: float
    """The factor from Kafka's unit."""
    is_derived: bool
    """True for what Prometheus computes from the other series: a rate or a percentile."""

    @property
    def exposed_name(self) -> str:
        """The name of the series."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _series(prefix: str, metrics: Iterable[Gauge]) -> tuple[KafkaSeries, ...]:
    return tuple(_one(prefix, each) for each in metrics)


def _one(prefix: str, metric: Gauge) -> KafkaSeries:
    name, unit, scale, kind = metric.name, metric.unit, 1.0, "gauge"
    is_derived = unit.endswith("/s") or bool(_PERCENTILE.search(name))
    if name.endswith(_TIME_TOTAL):
        name, unit, scale = name.removesuffix(_TIME_TOTAL) + "-time-seconds-total", "s", 1e-9
    if name.endswith("-total"):
        name, kind = name.removesuffix("-total"), "counter"
    legal = f"{prefix}_{_RENAMED.get(name, name).replace('-', '_')}"
    meaning = metric.meaning.replace("`", "")
    told = f"{meaning} ({unit})" if unit in ("ms", "s") else meaning
    return KafkaSeries(
        metric.name,
        legal,
        "counter" if kind == "counter" else "gauge",
        told,
        unit,
        scale,
        is_derived,
    )


PRODUCER_SERIES: Final = _series("kafka_producer", GROUPS["producer-metrics"])
TOPIC_SERIES: Final = _series("kafka_producer_topic", GROUPS["producer-topic-metrics"])
NODE_SERIES: Final = _series("kafka_producer_node", GROUPS["producer-node-metrics"])
