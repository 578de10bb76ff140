"""The metrics of a consumer, by the names of Java's consumer. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Final, TypedDict

from aioproducer.engine.metrics.metric_kinds import MS_PER_SECOND, Metric, Whole, avg_max
from aioproducer.engine.metrics.names import CONNECTION_METRICS, traffic
from aioproducer.engine.metrics.stats import NodeStats
from aioproducer.model import TopicPartition
from aioproducer.reader.partition import PartitionState

__all__ = ["ConsumerMetricsSnapshot", "ConsumerStats"]

ConsumerMetricsSnapshot = TypedDict(
    "ConsumerMetricsSnapshot",
    {
        "consumer-metrics": dict[str, float],
        "consumer-node-metrics": dict[str, dict[str, float]],
        "consumer-coordinator-metrics": dict[str, float],
        "consumer-fetch-manager-metrics": dict[str, float],
        "consumer-fetch-manager-partition-metrics": dict[str, dict[str, float]],
    },
)
"""Metric values by Java group and name; the group of nodes by ``node-<id>``, the last group by
``<topic>-<partition>``.

Totals count from the start. A value that is not known yet is NaN.
"""

CLIENT_METRICS: Final[tuple[Metric[Whole], ...]] = (
    *CONNECTION_METRICS,
    Metric(
        "poll-idle-ratio-avg",
        "ratio",
        "Time that the application waited for records per time elapsed",
        lambda reading: min(reading.recent.client.read_wait.total / reading.elapsed, 1.0),
    ),
)
NODE_METRICS: Final[tuple[Metric[NodeStats], ...]] = traffic(lambda node: node, "fetch request")
FETCH_METRICS: Final[tuple[Metric[Whole], ...]] = avg_max(
    "fetch-latency",
    "ms",
    "time from a fetch request to its response",
    lambda whole: whole.client.request_latency,
    MS_PER_SECOND,
)


def no_metrics() -> ConsumerMetricsSnapshot:
    """The metrics of a consumer that was not started."""
    return {
        "consumer-metrics": {},
        "consumer-node-metrics": {},
        "consumer-coordinator-metrics": {},
        "consumer-fetch-manager-metrics": {},
        "consumer-fetch-manager-partition-metrics": {},
    }


@dataclass(slots=True)
class Timed:
    """How often something was done, and the seconds that it took."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """It was done once more."""
        self.count += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)


class ConsumerStats:
    """The counts of one member. Times are the clock's seconds."""

    def __init__(self) -> None:
        self.commits = Timed()
        self.failed_commits = 0
        self.heartbeats = Timed()
        self.rebalances = Timed()
        """From the moment that the member knows of one to its new assignment."""
        self.losses = 0
        """The times that the group has gone on without the member."""
        self.last_rebalance: float | None = None

    def rebalanced(self, began: float, now: float) -> None:
        """The member has got an assignment."""
        self.rebalances.add(now - began)
        self.last_rebalance = now


def coordinator_metrics(
    stats: ConsumerStats, assigned: int, last_heartbeat: float | None, now: float
) -> dict[str, float]:
    """The group ``consumer-coordinator-metrics``. Times are milliseconds, ages seconds."""

    def age(moment: float | None) -> float:
        return nan if moment is None else now - moment

    found = {
        "assigned-partitions": float(assigned),
        "failed-commit-total": float(stats.failed_commits),
        "failed-rebalance-total": float(stats.losses),
        "last-heartbeat-seconds-ago": age(last_heartbeat),
        "last-rebalance-seconds-ago": age(stats.last_rebalance),
    }
    for name, timed in (
        ("commit", stats.commits),
        ("heartbeat", stats.heartbeats),
        ("rebalance", stats.rebalances),
    ):
        mean = timed.seconds / timed.count * 1000 if timed.count else nan
        longest = timed.longest * 1000 if timed.count else nan
        kind = "response-time" if name == "heartbeat" else "latency"
        found[f"{name}-total"] = float(timed.count)
        found[f"{name}-{kind}-avg"] = mean
        found[f"{name}-{kind}-max"] = longest
    found["rebalance-latency-total"] = stats.rebalances.seconds * 1000
    return found


def fetch_metrics(
    records: int, read_bytes: int, fetches: int, partitions: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """The counts of ``consumer-fetch-manager-metrics``, and the greatest lag of ``partitions``."""
    lags = [each["records-lag"] for each in partitions.values()]
    return {
        "records-consumed-total": float(records),
        "bytes-consumed-total": float(read_bytes),
        "fetch-total": float(fetches),
        "records-lag-max": max((lag for lag in lags if not isnan(lag)), default=nan),
    }


def partition_metrics(
    states: Mapping[TopicPartition, PartitionState], positions: Mapping[TopicPartition, int]
) -> dict[str, dict[str, float]]:
    """The lag of each partition, as of the last answer of its leader."""
    return {
        str(where): {"records-lag": nan if lag is None else float(lag)}
        for where, state in states.items()
        for lag in [lag_of(state, positions[where])]
    }


def lag_of(state: PartitionState, position: int) -> int | None:
    """Records after ``position``; None: no leader has answered yet."""
    end = state.high_watermark
    return None if end is None else max(end - position, 0)
