"""The names of metrics in telemetry, and the choice of those that a broker asked for. No I/O.

Source: Kafka's ``TelemetryMetricNamingConvention`` and ``ClientTelemetryUtils``.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Final, TypeAlias

__all__ = ["ATTRIBUTES", "Selection", "is_sum", "selected", "telemetry_name"]

_DOMAIN: Final = "org.apache.kafka"
_ALL: Final = "*"
"""Kafka's brokers ask for all metrics by this; the KIP has the empty string for it."""

ATTRIBUTES: Final = {
    "producer-metrics": None,
    "producer-node-metrics": "node_id",
    "producer-topic-metrics": "topic",
}
"""The groups of metrics, each with the attribute that tells its members apart."""

Selection: TypeAlias = frozenset[tuple[str, str]]
"""Chosen metrics: the group and the name of each, as in the snapshot."""


def telemetry_name(group: str, name: str) -> str:
    """The name of a metric in telemetry: ``org.apache.kafka.producer.record.queue.time.avg``."""
    return f"{_DOMAIN}.{group.removesuffix('-metrics')}.{name}".replace("-", ".")


def is_sum(name: str) -> bool:
    """True for a count since the start, which only grows; any other metric is a gauge."""
    return name.endswith("-total")


@cache
def _names() -> dict[tuple[str, str], str]:
    from aioproducer.engine.metrics.names import GROUPS

    return {
        (group, metric.name): telemetry_name(group, metric.name)
        for group, metrics in GROUPS.items()
        for metric in metrics
    }


def selected(prefixes: Collection[str]) -> Selection:
    """The metrics whose telemetry names begin with any of ``prefixes``.

    The result is bounded by the number of metrics, and so is the time, however many prefixes
    there are.
    """
    names, wanted = _names(), set(prefixes)
    longest, everything = max(map(len, names.values())), _ALL in wanted
    lengths = {len(each) for each in wanted if len(each) <= longest}
    return frozenset(
        metric
        for metric, name in names.items()
        if everything or any(name[:length] in wanted for length in lengths)
    )
