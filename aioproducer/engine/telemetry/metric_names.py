"""The names of metrics in telemetry, and the choice of those that a broker asked for. No I/O.

Source: Kafka's ``TelemetryMetricNamingConvention`` and ``ClientTelemetryUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "MetricGroup",
    "MetricGroups",
    "Selection",
    "is_sum",
    "producer_groups",
    "selected",
    "telemetry_name",
]

_DOMAIN: Final = "org.apache.kafka"
_ALL: Final = "*"
"""Kafka's brokers ask for all metrics by this; the KIP has the empty string for it."""


class MetricGroup(NamedTuple):
    """A group of a client's metrics, as telemetry names them."""

    domain: str
    """The part of the names between ``org.apache.kafka`` and the metric: ``producer-node``."""
    names: tuple[str, ...]
    attributes: Callable[[str], Mapping[str, str]] | None = None
    """The attributes that tell a member apart, by its key in the snapshot, such as a topic.
    None: the group has no members, and its values are directly in the snapshot."""

    def members(self, values: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
        """The values of a snapshot by the key of a member."""
        return {"": values} if self.attributes is None else values


MetricGroups: TypeAlias = Mapping[str, MetricGroup]
"""All groups by their names in the snapshot. If there is no room, the last ones are left out."""

Selection: TypeAlias = frozenset[tuple[str, str]]
"""Chosen metrics: the group and the name of each, as in the snapshot."""


def telemetry_name(group: MetricGroup, name: str) -> str:
    """The name of a metric in telemetry: ``org.apache.kafka.producer.record.queue.time.avg``."""
    return f"{_DOMAIN}.{group.domain}.{name}".replace("-", ".")


def is_sum(name: str) -> bool:
    """True for a count since the start, which only grows; any other metric is a gauge."""
    return name.endswith("-total")


@cache
def producer_groups() -> MetricGroups:
    """The groups of a producer."""
    from aioproducer.engine.metrics.names import GROUPS

    attributes: Mapping[str, Callable[[str], Mapping[str, str]] | None] = {
        "producer-metrics": None,
        "producer-node-metrics": lambda node: {"node_id": node},
        "producer-topic-metrics": lambda topic: {"topic": topic},
    }
    return {
        group: MetricGroup(
            group.removesuffix("-metrics"), tuple(metric.name for metric in GROUPS[group]), of
        )
        for group, of in attributes.items()
    }


def selected(prefixes: Collection[str], groups: MetricGroups) -> Selection:
    """The metrics of ``groups`` whose telemetry names begin with any of ``prefixes``.

    The result is bounded by the number of metrics, and so is the time, however many prefixes
    there are.
    """
    names = {
        (key, name): telemetry_name(group, name)
        for key, group in groups.items()
        for name in group.names
    }
    wanted = set(prefixes)
    longest, everything = max(map(len, names.values())), _ALL in wanted
    lengths = {len(each) for each in wanted if len(each) <= longest}
    return frozenset(
        metric
        for metric, name in names.items()
        if everything or any(name[:length] in wanted for length in lengths)
    )
