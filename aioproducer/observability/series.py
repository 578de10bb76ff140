"""The metrics of producers as time series, by the rules of Prometheus and OpenMetrics. Pure.

The names of Kafka's metrics are those that Micrometer, and so Spring, gives the metrics of the Java
producer: ``kafka_producer_`` for the producer, ``kafka_producer_topic_`` and
``kafka_producer_node_`` for a topic and a broker, and ``_`` in place of ``-``. A total is a
counter. Everything else is a gauge in Kafka's unit. Two exceptions follow the rules that
``promtool check metrics`` checks: a total of nanoseconds is one of seconds, and
``connection-count`` is ``connections``.

:class:`ProducerSeries` makes families of a producer's metrics, latencies and health, with a bounded
number of topics and brokers. :func:`to_bytes` and :func:`from_bytes` carry families from one
process of a server to another. :func:`markdown` writes the tables of the documentation.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from aioproducer.engine.metrics.names import (
    GROUPS,
    Gauge,
)
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.engine.core.health import Health
    from aioproducer.engine.metrics import Latencies, LatencyHistogram, MetricsSnapshot

__all__ = [
    "Families",
    "Family",
    "Kind",
    "Sample",
    "printable",
    "NODE_SERIES",
    "PRODUCER_SERIES",
    "TOPIC_SERIES",
    "KafkaSeries",
    "KeyBound",
    "BROKER_NAMES",
    "LATENCY_BUCKETS",
    "ProducerSeries",
    "SeriesOptions",
    "SeriesSource",
    "all_families",
    "own_families",
    "MalformedMessageError",
    "from_bytes",
    "to_bytes",
    "markdown",
]


Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """The value of one series."""

    name: str
    """The family's name, with the suffix of the sample: ``_total``, ``_bucket``, ``_sum``."""
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """The series of a metric that differ by their labels."""

    name: str
    """A counter's name is without ``_total``."""
    kind: Kind
    meaning: str
    samples: list[Sample] = field(default_factory=list)


class Families:
    """Families by name, in the order of their first sample."""

    def __init__(self) -> None:
        self._by_name: dict[str, Family] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._by_name.values())

    def family(self, name: str, kind: Kind, meaning: str) -> Family:
        """The family of this name."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Family(name, kind, meaning)
        return found

    def add(
        self, name: str, kind: Kind, meaning: str, labels: Mapping[str, str], value: float
    ) -> None:
        """Add a sample of a counter or a gauge, unless its value is NaN: there is none yet."""
        if math.isnan(value):
            return
        suffix = "_total" if kind == "counter" else ""
        self.family(name, kind, meaning).samples.append(Sample(name + suffix, labels, value))

    def merge(self, families: Iterable[Family], labels: Mapping[str, str]) -> None:
        """Add the samples of ``families``, with ``labels`` in addition."""
        for each in families:
            samples = self.family(each.name, each.kind, each.meaning).samples
            samples.extend(
                Sample(name, {**own, **labels}, value) for name, own, value in each.samples
            )


def printable(label: str) -> str:
    """``label`` as UTF-8 can encode it; a lone surrogate becomes its escape."""
    return label.encode("utf-8", "backslashreplace").decode("utf-8")


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


class KeyBound:
    """The first ``most`` keys that came, for as long as they exist.

    A key that got in stays, so no counter disappears because another topic became busier. The place
    of a key that exists no more is free again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, None] = {}

    def keep(self, keys: Collection[str]) -> tuple[list[str], int]:
        """The keys to show of all ``keys`` there are, and the number of the others."""
        kept = {key: None for key in self._kept if key in keys}
        for key in keys:
            if len(kept) >= self._most:
                break
            kept[key] = None
        self._kept = kept
        return list(kept), len(keys) - len(kept)


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
        for attribute, (name, meaning) in _HISTOGRAMS.items():
            self._add_histogram(families, name, meaning, getattr(latencies, attribute))
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


_KINDS: Final = frozenset(get_args(Kind))


class MalformedMessageError(ValueError):
    """A message is not one of series."""


def to_bytes(families: Iterable[Family]) -> bytes:
    """``families`` as JSON."""
    return json.dumps(
        [[each.name, each.kind, each.meaning, each.samples] for each in families],
        separators=(",", ":"),
    ).encode()


def from_bytes(message: bytes) -> list[Family]:
    """The families of :func:`to_bytes`. Raises MalformedMessageError for anything else."""
    try:
        return [_family(each) for each in json.loads(message)]
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedMessageError(str(error)) from None


def _family(found: Any) -> Family:
    name, kind, meaning, samples = found
    if kind not in _KINDS:
        raise MalformedMessageError(f"{kind!r} is not a kind of metric")
    return Family(_text(name), kind, _text(meaning), [_sample(each) for each in samples])


def _sample(found: Any) -> Sample:
    name, labels, value = found
    if not isinstance(labels, dict) or not isinstance(value, int | float):
        raise MalformedMessageError(f"{name!r} is not a sample")
    return Sample(_text(name), {each: _text(labels[each]) for each in labels}, float(value))


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise MalformedMessageError(f"{found!r} is not text")
    return found


def markdown() -> str:
    """All series as Markdown tables: ours, and one per group of Kafka's metrics."""
    return "\n\n".join(
        (
            _own(),
            _of_kafka("producer-metrics", "label `client_id`", PRODUCER_SERIES),
            _of_kafka("producer-topic-metrics", "labels `client_id` and `topic`", TOPIC_SERIES),
            _of_kafka("producer-node-metrics", "labels `client_id` and `node`", NODE_SERIES),
        )
    )


def _own() -> str:
    lines = []
    for family in own_families():
        labels = "`client_id`, `node`" if family.name in BROKER_NAMES else "`client_id`"
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |")
    return _table("Latencies and health:", "| Series | Kind | Labels | Meaning |", lines)


def _of_kafka(group: str, labels: str, rows: Iterable[KafkaSeries]) -> str:
    lines = [
        f"| `{row.exposed_name}` | {row.kind} | {row.unit} | `{row.kafka_name}` |"
        for row in rows
        if not row.is_derived
    ]
    head = "| Series | Kind | Unit | Kafka's metric |"
    return _table(f"Kafka's `{group}`, with the {labels}:", head, lines)


def _table(title: str, head: str, lines: Iterable[str]) -> str:
    return "\n".join((title, "", head, "|---|---|---|---|", *lines))
