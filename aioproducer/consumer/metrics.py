"""The metrics of a consumer by the names of Java's consumer, and their pushes (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf, isnan, nan
from typing import Any, Final, TypedDict

from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.metrics.counts import NodeStats, Reading, Stats, Summary, TimeWindows
from aioproducer.engine.metrics.names import (
    CONNECTION_METRICS,
    MS_PER_SECOND,
    Metric,
    Whole,
    avg_max,
    meter,
    traffic,
    values_of,
)
from aioproducer.engine.telemetry.payload_maker import MetricsSource, PayloadMaker
from aioproducer.engine.telemetry.requester import TelemetryRequester
from aioproducer.engine.telemetry.subscription import MetricGroup, MetricGroups, TelemetryStates
from aioproducer.errors import ClientClosedError, ProducerError
from aioproducer.foundation.runtime.threads import DaemonThreads
from aioproducer.model import TopicPartition
from aioproducer.reader.partition import PartitionState

__all__ = ["ConsumerMetricsSnapshot", "ConsumerStats"]

_SECONDS_PER_HOUR: Final = 3600
_FETCHES: Final = "consumer-fetch-manager"

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
    lambda whole: whole.nodes.latency,
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
class MemberCounts(Stats):
    """What a member did in some period. Times are seconds."""

    commits: Summary = field(default_factory=Summary)
    failed_commits: int = 0
    heartbeats: Summary = field(default_factory=Summary)
    joins: Summary = field(default_factory=Summary)
    """The answers to JoinGroup."""
    syncs: Summary = field(default_factory=Summary)
    """The answers to SyncGroup."""
    rebalances: Summary = field(default_factory=Summary)
    """From the moment that the member knows of one to its new assignment."""
    assigned_calls: Summary = field(default_factory=Summary)
    """The calls of ``on_assigned``."""
    revoked_calls: Summary = field(default_factory=Summary)
    lost_calls: Summary = field(default_factory=Summary)
    losses: int = 0
    """The times that the group has gone on without the member."""


def _per_hour(
    name: str, what: str, amount: Callable[[MemberCounts], float]
) -> Metric[MemberCounts]:
    return Metric(
        f"{name}-rate-per-hour",
        "1/h",
        f"{what}, per hour",
        lambda reading: amount(reading.recent) / reading.elapsed * _SECONDS_PER_HOUR,
    )


COORDINATOR_METRICS: Final[tuple[Metric[MemberCounts], ...]] = (
    *avg_max("commit-latency", "ms", "time of a commit", lambda of: of.commits, MS_PER_SECOND),
    *meter("commit", "commits", "Commits", lambda of: of.commits.count),
    Metric(
        "failed-commit-total",
        "commits",
        "Commits that failed, since the start",
        lambda reading: reading.ever.failed_commits,
    ),
    *avg_max(
        "heartbeat-response-time",
        "ms",
        "time from a heartbeat to its response",
        lambda of: of.heartbeats,
        MS_PER_SECOND,
    ),
    *meter("heartbeat", "heartbeats", "Heartbeats", lambda of: of.heartbeats.count),
    *avg_max("join-time", "ms", "time of a JoinGroup", lambda of: of.joins, MS_PER_SECOND),
    *meter("join", "joins", "Joins of the group", lambda of: of.joins.count),
    *avg_max("sync-time", "ms", "time of a SyncGroup", lambda of: of.syncs, MS_PER_SECOND),
    *meter("sync", "syncs", "Assignments by SyncGroup", lambda of: of.syncs.count),
    *avg_max(
        "rebalance-latency", "ms", "time of a rebalance", lambda of: of.rebalances, MS_PER_SECOND
    ),
    Metric(
        "rebalance-latency-total",
        "ms",
        "Time in rebalances, since the start",
        lambda reading: reading.ever.rebalances.total * MS_PER_SECOND,
    ),
    Metric(
        "rebalance-total",
        "rebalances",
        "Rebalances, since the start",
        lambda reading: reading.ever.rebalances.count,
    ),
    _per_hour("rebalance", "Rebalances", lambda of: of.rebalances.count),
    Metric(
        "failed-rebalance-total",
        "rebalances",
        "The times that the group continued without the member, since the start",
        lambda reading: reading.ever.losses,
    ),
    _per_hour("failed-rebalance", "Losses of the membership", lambda of: of.losses),
    *avg_max(
        "partition-assigned-latency",
        "ms",
        "time of an on_assigned callback",
        lambda of: of.assigned_calls,
        MS_PER_SECOND,
    ),
    *avg_max(
        "partition-revoked-latency",
        "ms",
        "time of an on_revoked callback",
        lambda of: of.revoked_calls,
        MS_PER_SECOND,
    ),
    *avg_max(
        "partition-lost-latency",
        "ms",
        "time of an on_lost callback",
        lambda of: of.lost_calls,
        MS_PER_SECOND,
    ),
)


class ConsumerStats:
    """The counts of one member. Times are the clock's seconds.

    Averages, maxima and rates are of the last windows, as ``metrics_num_samples`` and
    ``metrics_sample_window_ms`` have them.
    """

    def __init__(
        self, *, num_samples: int = 2, sample_window: float = 30.0, now: float = 0.0
    ) -> None:
        self._windows = TimeWindows(
            MemberCounts, num_samples=num_samples, sample_window=sample_window, now=now
        )
        self.last_rebalance: float | None = None

    def at(self, now: float) -> MemberCounts:
        """The counts to which something is added now."""
        return self._windows.at(now)

    def read(self, now: float) -> Reading[MemberCounts]:
        """The counts of the last windows, and those since the start."""
        return self._windows.read(now)

    def rebalanced(self, began: float, now: float) -> None:
        """The member has got an assignment."""
        self.at(now).rebalances.add(now - began)
        self.last_rebalance = now


def coordinator_metrics(
    stats: ConsumerStats,
    assigned: int,
    last_heartbeat: float | None,
    protocol: str | None,
    now: float,
) -> dict[str, float]:
    """The group ``consumer-coordinator-metrics``. Times are milliseconds, ages seconds.

    ``uses-consumer-protocol`` is 1 with the protocol of KIP-848, 0 with the classic one.
    """

    def age(moment: float | None) -> float:
        return nan if moment is None else now - moment

    return {
        "assigned-partitions": float(assigned),
        "last-heartbeat-seconds-ago": age(last_heartbeat),
        "last-rebalance-seconds-ago": age(stats.last_rebalance),
        "uses-consumer-protocol": nan if protocol is None else float(protocol == "consumer"),
        **values_of(COORDINATOR_METRICS, stats.read(now)),
    }


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
    states: Mapping[TopicPartition, PartitionState],
    positions: Mapping[TopicPartition, int],
    *,
    committed_only: bool,
) -> dict[str, dict[str, float]]:
    """The lag of each partition, as of the last answer of its leader."""
    return {
        str(where): {"records-lag": nan if lag is None else float(lag)}
        for where, state in states.items()
        for lag in [lag_of(state, positions[where], committed_only=committed_only)]
    }


def lag_of(state: PartitionState, position: int, *, committed_only: bool) -> int | None:
    """Records after ``position``; None: no leader has answered yet.

    ``committed_only``: without those of open transactions, which can't be read yet. Source:
    Kafka's ``SubscriptionState.partitionLag``.
    """
    end = state.last_stable_offset if committed_only else state.high_watermark
    return None if end is None else max(end - position, 0)


@cache
def consumer_groups() -> MetricGroups:
    """The groups of a consumer. Those of nodes and of partitions may be long."""
    coordinator = coordinator_metrics(ConsumerStats(), 0, None, None, 0.0)
    fetches = *(each.name for each in FETCH_METRICS), *fetch_metrics(0, 0, 0, {})
    return {
        "consumer-metrics": MetricGroup("consumer", tuple(each.name for each in CLIENT_METRICS)),
        "consumer-coordinator-metrics": MetricGroup("consumer-coordinator", tuple(coordinator)),
        f"{_FETCHES}-metrics": MetricGroup(_FETCHES, fetches),
        "consumer-node-metrics": MetricGroup(
            "consumer-node",
            tuple(each.name for each in NODE_METRICS),
            lambda node: {"node_id": node},
        ),
        f"{_FETCHES}-partition-metrics": MetricGroup(_FETCHES, ("records-lag",), _partition),
    }


def _partition(where: str) -> Mapping[str, str]:
    topic, _, partition = where.rpartition("-")
    return {"topic": topic, "partition": partition}


def consumer_telemetry(
    client: ClusterClient,
    snapshot: Callable[[], Mapping[str, Any]],
    resource: Callable[[], Mapping[str, str]],
) -> TelemetryRequester:
    """The pushes of a consumer's metrics by ``client``: they end with it.

    ``resource``: the attributes of the consumer.
    """
    threads = DaemonThreads("aioproducer-telemetry", 1)
    end_of_others = client.on_end
    started_ns = client.wall_clock_ns()

    async def new_maker() -> PayloadMaker:
        source = MetricsSource(
            snapshot, consumer_groups(), client.wall_clock_ns, started_ns, resource
        )
        return PayloadMaker(source, threads.run)

    requester = client.attach(
        lambda network, peers, owner, wakeup: TelemetryRequester(
            TelemetryStates(client.random),
            consumer_groups,
            new_maker,
            network,
            peers,
            lambda: client.finishes,
            owner,
            wakeup,
        )
    )

    def end() -> None:
        end_of_others()
        requester.close(ClientClosedError("the Consumer is closed; make a new one"))
        threads.shutdown(cancel_futures=True)

    client.on_end = end
    client.start_task(_connect(client), "aioproducer-telemetry")
    return requester


async def _connect(client: ClusterClient) -> None:
    """Have a connection for pushes: a member without partitions fetches from nobody."""

    async def describe() -> None:
        await client.describe()
        await client.describe()  # of a broker that the bootstrap server has named

    with suppress(ProducerError):
        await client.retry(describe, timeout=inf, doing="connecting for pushes")
