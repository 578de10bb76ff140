"""A producer's metrics, latencies and health → families."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from aioproducer.errors import ConfigError
from aioproducer.observability.series.bounds import KeyBound
from aioproducer.observability.series.family import Families, Sample, printable
from aioproducer.observability.series.names import (
    NODE_SERIES,
    PRODUCER_SERIES,
    TOPIC_SERIES,
    KafkaSeries,
)

if TYPE_CHECKING:
    from aioproducer.engine.core.health import Health
    from aioproducer.engine.metrics import Latencies, LatencyHistogram, MetricsSnapshot

__all__ = [
    "BROKER_NAMES",
    "LATENCY_BUCKETS",
    "ProducerSeries",
    "SeriesOptions",
    "SeriesSource",
    "all_families",
    "own_families",
]

LATENCY_BUCKETS: Final = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Upper bounds in seconds; ``delivery_timeout_ms`` is 120 s by default."""

_HISTOGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "record": (
        "aioproducer_record_latency_seconds",
        "Time from the send of a record to its acknowledgement",
    ),
    "wait": (
        "aioproducer_record_wait_seconds",
        "Time that a record waited for metadata or memory, of the records that waited",
    ),
    "queue": (
        "aioproducer_batch_queue_seconds",
        "Time from a batch's creation to the request that carries it",
    ),
    "request": (
        "aioproducer_request_latency_seconds",
        "Time from a produce request to its response",
    ),
    "broker": (
        "aioproducer_broker_time_seconds",
        "Time from a produce request to its response, minus the network's round trip; Linux only",
    ),
}
_GAUGES: Final[tuple[tuple[str, str, Callable[[Health], float | None]], ...]] = (
    (
        "aioproducer_can_write",
        "1 if the producer can write, 0 if it can't; absent while unknown",
        lambda health: health.can_write,
    ),
    ("aioproducer_ready", "1 if the producer is ready", lambda health: health.is_ready),
    (
        "aioproducer_live",
        "1 unless the producer is closed, broken or fenced, and must be replaced",
        lambda health: health.is_live,
    ),
    (
        "aioproducer_outage_seconds",
        "Time for which the producer has been unable to write; 0 if it can",
        lambda health: health.since or 0.0,
    ),
    (
        "aioproducer_oldest_record_age_seconds",
        "Age of the oldest record without an outcome; 0 if there is none",
        lambda health: health.oldest_record_age or 0.0,
    ),
    (
        "aioproducer_pending_records",
        "Records that wait for metadata or memory",
        lambda health: health.pending_records,
    ),
    ("aioproducer_batches", "Batches without an outcome", lambda health: health.batches),
    (
        "aioproducer_memory_used_ratio",
        "Share of buffer_memory in use",
        lambda health: health.memory_used,
    ),
    (
        "aioproducer_leaderless_partitions",
        "Partitions of the topics in use that have no leader",
        lambda health: health.leaderless_partitions,
    ),
)
_BROKER_CONNECTED: Final = ("aioproducer_broker_connected", "1 if there is a connection")
_BROKER_FAILING: Final = (
    "aioproducer_broker_failing",
    "1 if the broker can't be reached, refuses the login, or is silent",
)
_BROKER_IN_FLIGHT: Final = (
    "aioproducer_broker_requests_in_flight",
    "Requests that wait for the broker's response",
)
BROKER_NAMES: Final = frozenset(
    name for name, _ in (_BROKER_CONNECTED, _BROKER_FAILING, _BROKER_IN_FLIGHT)
)
"""The families of health that have a series for each broker."""
_TOPICS_LEFT_OUT: Final = (
    "aioproducer_topics_left_out",
    "Topics without their own series, because there are more than max_topics",
)
_NODES_LEFT_OUT: Final = (
    "aioproducer_nodes_left_out",
    "Brokers without their own series, because there are more than max_nodes",
)
_CONNECTED: Final = frozenset({"connected", "throttled"})


class SeriesSource(Protocol):
    """A producer, of asyncio or blocking. Any thread may call these."""

    @property
    def client_id(self) -> str: ...

    def metrics(self) -> MetricsSnapshot: ...

    def latencies(self) -> Latencies: ...

    def health(self) -> Health: ...


@dataclass(frozen=True, slots=True)
class SeriesOptions:
    """The series of each producer."""

    max_topics: int = 500
    max_nodes: int = 500
    rates: bool = False
    """True: rates and percentiles over the producer's own windows, too."""
    buckets: tuple[float, ...] = LATENCY_BUCKETS
    """The upper bounds of the buckets of latencies, in seconds, ascending."""

    def __post_init__(self) -> None:
        for name in ("max_topics", "max_nodes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}={getattr(self, name)} is below 0")
        ascending = all(below < above for below, above in pairwise((0.0, *self.buckets, math.inf)))
        if not self.buckets or not ascending:
            raise ConfigError(
                f"buckets={self.buckets!r} must be finite numbers of seconds above 0, ascending"
            )


class ProducerSeries:
    """The series of one producer, by the label ``client_id``."""

    def __init__(self, client_id: str, options: SeriesOptions) -> None:
        self.client_id = client_id
        self._labels = {"client_id": printable(client_id)}
        self._options = options
        self._topics = KeyBound(options.max_topics)
        self._nodes = KeyBound(options.max_nodes)
        self._brokers = KeyBound(options.max_nodes)

    def add_to(
        self, families: Families, metrics: MetricsSnapshot, latencies: Latencies, health: Health
    ) -> None:
        """Add all series of the producer."""
        self._add(families, PRODUCER_SERIES, self._labels, metrics["producer-metrics"])
        self._add_by_key(
            families, TOPIC_SERIES, "topic", metrics["producer-topic-metrics"], self._topics
        )
        nodes = {
            key.removeprefix("node-"): values
            for key, values in metrics["producer-node-metrics"].items()
        }
        self._add_by_key(families, NODE_SERIES, "node", nodes, self._nodes)
        for field, (name, meaning) in _HISTOGRAMS.items():
            self._add_histogram(families, name, meaning, getattr(latencies, field))
        self._add_health(families, health)

    def _add(
        self,
        families: Families,
        series: Iterable[KafkaSeries],
        labels: Mapping[str, str],
        values: Mapping[str, float],
    ) -> None:
        for each in series:
            if each.is_derived and not self._options.rates:
                continue
            value = values.get(each.kafka_name, math.nan) * each.scale
            families.add(each.name, each.kind, each.meaning, labels, value)

    def _add_by_key(
        self,
        families: Families,
        series: Iterable[KafkaSeries],
        label: str,
        groups: Mapping[str, Mapping[str, float]],
        bound: KeyBound,
    ) -> None:
        kept, left_out = bound.keep(groups)
        for key in kept:
            self._add(families, series, {**self._labels, label: key}, groups[key])
        name, meaning = _TOPICS_LEFT_OUT if label == "topic" else _NODES_LEFT_OUT
        families.add(name, "gauge", meaning, self._labels, left_out)

    def _add_histogram(
        self, families: Families, name: str, meaning: str, latencies: LatencyHistogram
    ) -> None:
        samples = families.family(name, "histogram", meaning).samples
        bucket = f"{name}_bucket"
        # Upward, and the whole last: what is counted meanwhile leaves the buckets cumulative.
        for bound in self._options.buckets:
            count = latencies.count_up_to(bound)
            samples.append(Sample(bucket, {**self._labels, "le": repr(float(bound))}, count))
        count = latencies.count
        samples.append(Sample(bucket, {**self._labels, "le": "+Inf"}, count))
        samples.append(Sample(f"{name}_count", self._labels, count))
        samples.append(Sample(f"{name}_sum", self._labels, latencies.total))

    def _add_health(self, families: Families, health: Health) -> None:
        for name, meaning, read in _GAUGES:
            value = read(health)
            if value is not None:
                families.add(name, "gauge", meaning, self._labels, float(value))
        by_node = {str(broker.node): broker for broker in health.brokers}
        for node in self._brokers.keep(by_node)[0]:
            broker = by_node[node]
            labels = {**self._labels, "node": node}
            for (name, meaning), value in (
                (_BROKER_CONNECTED, float(broker.state in _CONNECTED)),
                (_BROKER_FAILING, float(broker.is_failing)),
                (_BROKER_IN_FLIGHT, float(broker.in_flight)),
            ):
                families.add(name, "gauge", meaning, labels, value)


def all_families() -> Families:
    """Every family that there may be, without samples."""
    families = Families()
    for series in (*PRODUCER_SERIES, *TOPIC_SERIES, *NODE_SERIES):
        families.family(series.name, series.kind, series.meaning)
    for each in own_families():
        families.family(each.name, each.kind, each.meaning)
    return families


def own_families() -> Families:
    """The families that are not Kafka's, without samples."""
    families = Families()
    for name, meaning in _HISTOGRAMS.values():
        families.family(name, "histogram", meaning)
    for name, meaning in (
        *((name, meaning) for name, meaning, _ in _GAUGES),
        *(_BROKER_CONNECTED, _BROKER_FAILING, _BROKER_IN_FLIGHT),
        *(_TOPICS_LEFT_OUT, _NODES_LEFT_OUT),
    ):
        families.family(name, "gauge", meaning)
    return families
