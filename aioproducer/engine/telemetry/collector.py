"""A snapshot of the metrics as OTLP, and the counts that brokers have by now. No I/O.

Source: Kafka's ``KafkaMetricsCollector``. Unlike there, a count that no broker has acknowledged is
part of the next delta.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from aioproducer.engine.telemetry.metric_names import (
    MetricGroup,
    MetricGroups,
    Selection,
    is_sum,
    telemetry_name,
)
from aioproducer.engine.telemetry.otlp import (
    PointHeads,
    Temporality,
    gauge,
    gauge_point,
    point_heads,
    sum_,
    sum_point,
)
from aioproducer.foundation import tuning

__all__ = ["Collected", "Collector"]

_Members: TypeAlias = Mapping[str, Mapping[str, float]]
"""The values of a group of metrics, by topic or node."""


class _Count(NamedTuple):
    """A count since the start."""

    value: float
    start_ns: int


_Counts: TypeAlias = dict[tuple[str, str], dict[str, _Count]]
"""The counts by group and name, then by topic or node."""


class Collected(NamedTuple):
    """The encoded metrics of a moment."""

    groups: Mapping[str, bytes]
    """The metrics by their group; the group with the fewest is the first."""
    counts: _Counts
    time_ns: int


class Collector:
    """Encodes snapshots. Times are nanoseconds since the epoch; counts began at ``started_ns``."""

    def __init__(self, started_ns: int, groups: MetricGroups) -> None:
        self._started_ns = started_ns
        self._groups = groups
        self._temporality = Temporality.CUMULATIVE
        self._acknowledged: _Counts = {}
        self._acknowledged_ns: dict[tuple[str, str], int] = {}
        """The time of the acknowledged counts, by group and name."""

    def collect(
        self,
        snapshot: Mapping[str, Any],
        selection: Selection,
        temporality: Temporality,
        now_ns: int,
    ) -> Generator[None, None, Collected]:
        """The metrics of ``selection``, encoded in steps; values that are not finite are left out.

        A change of ``temporality`` restarts all counts at the client's start, as in Kafka.
        """
        if temporality is not self._temporality:
            self._temporality = temporality
            self._acknowledged = {}
        collected = Collected({}, {}, now_ns)
        groups: dict[str, bytes] = {}
        for key, group in self._groups.items():
            members, attributes = group.members(snapshot[key]), group.attributes
            heads: dict[str, PointHeads] = {}
            for number, member in enumerate(members, start=1):
                heads[member] = point_heads({} if attributes is None else attributes(member))
                if not number % tuning.TELEMETRY_POINTS_PER_TURN:
                    yield
            metrics = []
            for name in sorted(name for each, name in selection if each == key):
                points = yield from self._points((key, name), members, heads, collected)
                if points:
                    metrics.append(self._metric(group, name, points))
            groups[key] = b"".join(metrics)
        return collected._replace(groups=groups)

    def _points(
        self,
        metric: tuple[str, str],
        members: _Members,
        heads: Mapping[str, PointHeads],
        collected: Collected,
    ) -> Generator[None, None, bytes]:
        """The data points of a metric; the counts among them are added to ``collected``."""
        name, now_ns = metric[1], collected.time_ns
        counts = collected.counts.setdefault(metric, {}) if is_sum(name) else None
        points = []
        for number, (member, values) in enumerate(members.items(), start=1):
            value = values.get(name)
            if value is not None and isfinite(value):
                if counts is None:
                    points.append(gauge_point(heads[member], now_ns, value))
                else:
                    start_ns, growth = self._growth(metric, member, value, counts)
                    points.append(sum_point(heads[member], start_ns, now_ns, growth))
            if not number % tuning.TELEMETRY_POINTS_PER_TURN:
                yield
        return b"".join(points)

    def _growth(
        self, metric: tuple[str, str], member: str, value: float, counts: dict[str, _Count]
    ) -> tuple[int, float]:
        """The growth of a count to be sent, and the time from which on it grew."""
        before = self._acknowledged.get(metric, {}).get(member)
        if before is None:
            counts[member] = _Count(value, self._started_ns)
            return self._started_ns, value
        acknowledged_ns = self._acknowledged_ns[metric]
        # A topic that was forgotten and came back is counted from 0 again.
        again = value < before.value
        counts[member] = _Count(value, acknowledged_ns if again else before.start_ns)
        if self._temporality is Temporality.DELTA:
            return acknowledged_ns, value if again else value - before.value
        return counts[member].start_ns, value

    def _metric(self, group: MetricGroup, name: str, points: bytes) -> bytes:
        full_name = telemetry_name(group, name)
        return (
            sum_(full_name, points, self._temporality) if is_sum(name) else gauge(full_name, points)
        )

    def acknowledge(self, collected: Collected) -> None:
        """A broker has taken ``collected``: its counts are the base of the next deltas."""
        self._acknowledged.update(collected.counts)
        self._acknowledged_ns.update(dict.fromkeys(collected.counts, collected.time_ns))
