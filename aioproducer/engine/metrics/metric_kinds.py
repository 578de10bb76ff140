"""The kinds of metrics: a rate and a total, an average, a maximum, percentiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from aioproducer.engine.metrics.latency_histogram import LatencyHistogram
from aioproducer.engine.metrics.stats import ClientStats, NodeStats, TopicStats
from aioproducer.engine.metrics.summary import Summary
from aioproducer.engine.metrics.windows import Reading

__all__ = [
    "MS_PER_SECOND",
    "Gauge",
    "Metric",
    "Whole",
    "average",
    "avg_max",
    "meter",
    "percentiles",
    "time_total",
    "times",
]

_S = TypeVar("_S")

MS_PER_SECOND: Final = 1e3
_NS_PER_SECOND: Final = 1e9


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric whose value the producer passes to :meth:`ProducerMetrics.snapshot`."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Metric(Gauge, Generic[_S]):
    """A metric that is computed from counts."""

    measure: Callable[[Reading[_S]], float]


@dataclass(frozen=True, slots=True)
class Whole:
    """The producer's numbers: its own, and the sums over its topics and nodes."""

    client: ClientStats
    topics: TopicStats
    nodes: NodeStats


def meter(
    name: str, unit: str, what: str, amount: Callable[[_S], float]
) -> tuple[Metric[_S], Metric[_S]]:
    return (
        Metric(
            f"{name}-rate",
            f"{unit}/s",
            f"{what}, per second",
            lambda reading: amount(reading.recent) / reading.elapsed,
        ),
        Metric(
            f"{name}-total",
            unit,
            f"{what}, since the start",
            lambda reading: amount(reading.ever),
        ),
    )


def average(
    name: str, unit: str, what: str, of: Callable[[_S], Summary], scale: float = 1.0
) -> Metric[_S]:
    return Metric(name, unit, f"Mean {what}", lambda reading: of(reading.recent).mean * scale)


def maximum(
    name: str, unit: str, what: str, of: Callable[[_S], Summary], scale: float = 1.0
) -> Metric[_S]:
    return Metric(name, unit, f"Greatest {what}", lambda reading: of(reading.recent).max * scale)


def avg_max(
    name: str, unit: str, what: str, of: Callable[[_S], Summary], scale: float = 1.0
) -> tuple[Metric[_S], Metric[_S]]:
    return (
        average(f"{name}-avg", unit, what, of, scale),
        maximum(f"{name}-max", unit, what, of, scale),
    )


_PERCENTILES: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def _percentile(
    name: str, what: str, of: Callable[[_S], LatencyHistogram], percent: float
) -> Metric[_S]:
    return Metric(
        name,
        "ms",
        f"Percentile {percent:g} of the {what}",
        lambda reading: of(reading.recent).percentile(percent) * MS_PER_SECOND,
    )


def percentiles(
    name: str, what: str, of: Callable[[_S], LatencyHistogram]
) -> tuple[Metric[_S], ...]:
    return tuple(
        _percentile(f"{name}-{suffix}", what, of, percent)
        for suffix, percent in _PERCENTILES.items()
    )


def times(name: str, what: str, of: Callable[[_S], LatencyHistogram]) -> tuple[Metric[_S], ...]:
    return (
        *avg_max(name, "ms", what, of, MS_PER_SECOND),
        *percentiles(name, what, of),
    )


def time_total(name: str, what: str, of: Callable[[_S], Summary]) -> Metric[_S]:
    return Metric(
        f"{name}-time-ns-total",
        "ns",
        f"{what}, since the start",
        lambda reading: of(reading.ever).total * _NS_PER_SECOND,
    )
