"""The list of all metrics: Java name, unit, meaning and formula; and the snapshot of their values.

Names and meanings come from Kafka's ``SenderMetricsRegistry``, ``BufferPool``,
``KafkaProducerMetrics`` and ``Selector``. The list leaves out the metrics of an I/O thread, which
an event loop lacks (``io-*``, ``select-*``), the deprecated ones, and
``successful-authentication-no-reauth-total``, which only has a meaning on brokers.

A metric is of a kind: a rate and a total, an average, a maximum, percentiles. Counting does not
import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from aioproducer.engine.metrics.counts import (
    ClientStats,
    Counts,
    LatencyHistogram,
    NodeStats,
    Reading,
    TopicStats,
)
from aioproducer.engine.metrics.summary import Summary

if TYPE_CHECKING:
    from aioproducer.engine.metrics.producer_metrics import MetricsSnapshot

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
    "GAUGES",
    "GROUPS",
    "CONNECTION_METRICS",
    "PRODUCER_METRICS",
    "TOPIC_METRICS",
    "NODE_METRICS",
    "frames",
    "markdown",
    "traffic",
    "snapshot_of",
    "values_by_node",
    "values_of",
    "values_of_whole",
]


_S = TypeVar("_S")

MS_PER_SECOND: Final = 1e3
_NS_PER_SECOND: Final = 1e9


class Gauge:
    """A metric whose value the producer passes to :meth:`ProducerMetrics.snapshot`."""

    def __init__(self, name: str, unit: str, meaning: str) -> None:
        self.name = name
        self.unit = unit
        self.meaning = meaning


class Metric(Gauge, Generic[_S]):
    """A metric that is computed from counts."""

    def __init__(
        self, name: str, unit: str, meaning: str, measure: Callable[[Reading[_S]], float]
    ) -> None:
        super().__init__(name, unit, meaning)
        self.measure = measure


class Whole(NamedTuple):
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


def _compression(name: str, of: Callable[[_S], TopicStats]) -> Metric[_S]:
    return Metric(
        name,
        "ratio",
        "Mean of each batch's compressed size over its uncompressed size",
        lambda reading: of(reading.recent).compression_ratio,
    )


def _deliveries(of: Callable[[_S], TopicStats]) -> tuple[Metric[_S], ...]:
    return (
        *meter(
            "record-send",
            "records",
            "Records sent in produce requests, counted again for each retry",
            lambda s: of(s).records_sent,
        ),
        *meter(
            "record-retry",
            "records",
            "Records queued for another attempt",
            lambda s: of(s).records_retried,
        ),
        *meter(
            "record-error",
            "records",
            "Records whose future failed",
            lambda s: of(s).records_failed,
        ),
    )


def frames(of: Callable[[_S], NodeStats]) -> tuple[Metric[_S], ...]:
    """Requests and responses of all kinds."""
    return (
        *meter("request", "requests", "Requests sent", lambda s: of(s).request_size.count),
        *avg_max("request-size", "bytes", "size of a request", lambda s: of(s).request_size),
        *meter("outgoing-byte", "bytes", "Bytes sent", lambda s: of(s).request_size.total),
        *meter("response", "responses", "Responses received", lambda s: of(s).response_size.count),
        *meter("incoming-byte", "bytes", "Bytes received", lambda s: of(s).response_size.total),
    )


def traffic(
    of: Callable[[_S], NodeStats], request: str = "produce request"
) -> tuple[Metric[_S], ...]:
    """Requests and responses; ``request``: those that have records, and whose latency counts."""
    return (
        *frames(of),
        *avg_max(
            "request-latency",
            "ms",
            f"time from a {request} to its response",
            lambda s: of(s).latency,
            MS_PER_SECOND,
        ),
    )


_BATCHES: Final[tuple[Metric[Whole], ...]] = (
    *_deliveries(lambda whole: whole.topics),
    *avg_max(
        "batch-size",
        "bytes",
        "size of a batch as it is sent",
        lambda whole: whole.client.batch_size,
    ),
    _compression("compression-rate-avg", lambda whole: whole.topics),
    *avg_max(
        "record-size",
        "bytes",
        "size of the largest record of a batch",
        lambda whole: whole.client.record_size,
    ),
    *avg_max(
        "record-queue-time",
        "ms",
        "time from a batch's creation to the request that carries it",
        lambda whole: whole.client.queue_time,
        MS_PER_SECOND,
    ),
    average(
        "records-per-request-avg",
        "records",
        "number of records in a produce request",
        lambda whole: whole.client.records_per_request,
    ),
    *meter(
        "batch-split",
        "batches",
        "Batches split because the broker found them too large",
        lambda whole: whole.client.batches_split.count,
    ),
)

_LATENCIES: Final[tuple[Metric[Whole], ...]] = (
    *times(
        "record-latency",
        "time from the send of a record to its acknowledgement",
        lambda whole: whole.client.record_latency,
    ),
    *times(
        "record-wait-time",
        "time that a record waited for metadata or memory, of those that waited",
        lambda whole: whole.client.record_wait,
    ),
    *percentiles(
        "record-queue-time",
        "time from a batch's creation to the request that carries it",
        lambda whole: whole.client.queue_time,
    ),
    *percentiles(
        "request-latency",
        "time from a produce request to its response",
        lambda whole: whole.nodes.latency,
    ),
    *times(
        "broker-time",
        "time from a produce request to its response, minus the network's (Linux only)",
        lambda whole: whole.client.broker_time,
    ),
)

_WAITS: Final[tuple[Metric[Whole], ...]] = (
    *meter(
        "buffer-exhausted",
        "records",
        "Records dropped because no memory became free in time",
        lambda whole: whole.client.records_dropped.count,
    ),
    Metric(
        "bufferpool-wait-ratio",
        "ratio",
        "Time records waited for memory per elapsed time; above 1 if several wait at once",
        lambda reading: reading.recent.client.buffer_wait.total / reading.elapsed,
    ),
    time_total(
        "bufferpool-wait", "Time records waited for memory", lambda whole: whole.client.buffer_wait
    ),
    time_total(
        "metadata-wait",
        "Time sends waited for their topic's metadata",
        lambda whole: whole.client.metadata_wait,
    ),
    time_total("flush", "Time spent in flush()", lambda whole: whole.client.flush),
)

_TRANSACTIONS: Final[tuple[Metric[Whole], ...]] = (
    time_total(
        "txn-init", "Time spent in init_transactions()", lambda whole: whole.client.txn_init
    ),
    time_total(
        "txn-begin", "Time spent in begin_transaction()", lambda whole: whole.client.txn_begin
    ),
    time_total(
        "txn-send-offsets",
        "Time spent in send_offsets_to_transaction()",
        lambda whole: whole.client.txn_send_offsets,
    ),
    time_total(
        "txn-commit", "Time spent in commit_transaction()", lambda whole: whole.client.txn_commit
    ),
    time_total(
        "txn-abort", "Time spent in abort_transaction()", lambda whole: whole.client.txn_abort
    ),
)

_NETWORK_IO: Final[tuple[Metric[Whole], ...]] = meter(
    "network-io",
    "frames",
    "Requests sent and responses received",
    lambda whole: whole.nodes.request_size.count + whole.nodes.response_size.count,
)

_THROTTLING: Final[tuple[Metric[Whole], ...]] = avg_max(
    "produce-throttle-time",
    "ms",
    "time for which a broker throttled the client, including responses without throttling",
    lambda whole: whole.nodes.throttle_time,
    MS_PER_SECOND,
)

_CONNECTIONS: Final[tuple[Metric[Whole], ...]] = (
    *meter(
        "connection-creation",
        "connections",
        "Connections opened",
        lambda whole: whole.client.connections_opened.count,
    ),
    *meter(
        "connection-close",
        "connections",
        "Connections closed",
        lambda whole: whole.client.connections_closed.count,
    ),
)

_LOGINS: Final[tuple[Metric[Whole], ...]] = (
    *meter(
        "successful-authentication",
        "connections",
        "Connections with a successful TLS handshake or SASL login",
        lambda whole: whole.client.logins.count,
    ),
    *meter(
        "failed-authentication",
        "connections",
        "Connections whose TLS handshake or SASL login finally failed",
        lambda whole: whole.client.logins_refused.count,
    ),
    *meter(
        "successful-reauthentication",
        "logins",
        "Renewed SASL logins on open connections (KIP-368)",
        lambda whole: whole.client.logins_renewed.count,
    ),
    *meter(
        "failed-reauthentication",
        "logins",
        "Renewed SASL logins on open connections that finally failed",
        lambda whole: whole.client.renewals_refused.count,
    ),
    *avg_max(
        "reauthentication-latency",
        "ms",
        "duration of a renewed SASL login on an open connection",
        lambda whole: whole.client.logins_renewed,
        MS_PER_SECOND,
    ),
)

GAUGES: Final[tuple[Gauge, ...]] = (
    Gauge("buffer-total-bytes", "bytes", "Memory that the producer can use: `buffer_memory`"),
    Gauge("buffer-available-bytes", "bytes", "Memory that is currently free"),
    Gauge("waiting-threads", "records", "Records that currently wait for memory (Java's name)"),
    Gauge("requests-in-flight", "requests", "Requests that currently wait for a response"),
    Gauge("connection-count", "connections", "Currently open connections"),
    Gauge("metadata-age", "s", "Age of the current metadata"),
)

PRODUCER_METRICS: Final[tuple[Metric[Whole], ...]] = (
    *_BATCHES,
    *_LATENCIES,
    *_WAITS,
    *_TRANSACTIONS,
    *traffic(lambda whole: whole.nodes),
    *_NETWORK_IO,
    *_THROTTLING,
    *_CONNECTIONS,
    *_LOGINS,
)

CONNECTION_METRICS: Final[tuple[Metric[Whole], ...]] = (
    *frames(lambda whole: whole.nodes),
    *_NETWORK_IO,
    *_CONNECTIONS,
    *_LOGINS,
)
"""The metrics that clients of any kind have."""

TOPIC_METRICS: Final[tuple[Metric[TopicStats], ...]] = (
    *_deliveries(lambda topic: topic),
    *meter("byte", "bytes", "Bytes of batches sent", lambda topic: topic.bytes_sent),
    _compression("compression-rate", lambda topic: topic),
)

NODE_METRICS: Final[tuple[Metric[NodeStats], ...]] = (
    *traffic(lambda node: node),
    *meter(
        "record-retry",
        "records",
        "Records queued for another attempt after one at this broker",
        lambda node: node.records_retried,
    ),
    *meter(
        "record-error",
        "records",
        "Records whose future failed after an attempt at this broker",
        lambda node: node.records_failed,
    ),
)


GROUPS: Final[Mapping[str, tuple[Gauge, ...]]] = {
    "producer-metrics": (*PRODUCER_METRICS, *GAUGES),
    "producer-topic-metrics": TOPIC_METRICS,
    "producer-node-metrics": NODE_METRICS,
}
"""All metrics by the groups of the snapshot."""


def markdown() -> str:
    """All metrics as Markdown tables, one per group of the snapshot."""
    return "\n\n".join(_table(group, rows) for group, rows in GROUPS.items())


def _table(group: str, rows: Iterable[Gauge]) -> str:
    lines = (f"| `{row.name}` | {row.unit} | {row.meaning} |" for row in rows)
    return "\n".join((f"### {group}", "", "| Metric | Unit | Meaning |", "|---|---|---|", *lines))


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
