"""Snapshots of series by producer, and the figures of the time between two of them. Pure.

Quantiles follow from cumulative buckets, as in ``histogram_quantile`` of Prometheus.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.observability.series import Sample

__all__ = [
    "PREFIXES",
    "ProducerKey",
    "ProducerValues",
    "Snapshot",
    "quantile",
    "BrokerFigures",
    "ProducerFigures",
    "TopicFigures",
    "figures",
]


PREFIXES: Final = ("kafka_producer_", "aioproducer_")
"""The names of our series."""
_PLACES: Final = ("topic", "node", "le")
"""Labels of which a series has at most one, in addition to those of its producer."""


class ProducerKey(NamedTuple):
    """A producer among those of a server."""

    client_id: str
    pid: str = ""
    """The process; empty if a process only answers for itself."""

    def __str__(self) -> str:
        return f"{self.client_id} (pid {self.pid})" if self.pid else self.client_id


class ProducerValues:
    """The values of one producer, by the name of the series and its place."""

    def __init__(self) -> None:
        self._by_name: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def put(self, name: str, place: str, value: float) -> None:
        """Note the value of a series."""
        self._by_name[name][place] = value

    def value(self, name: str, place: str = "") -> float | None:
        """The value of a series; None: there is none."""
        return self._by_name[name].get(place) if name in self._by_name else None

    def places(self, name: str) -> Mapping[str, float]:
        """The values of a name by topic, node or bucket."""
        return self._by_name.get(name, {})


class Snapshot:
    """The counts of producers at the time ``at``, in seconds of a monotonic clock."""

    def __init__(self, at: float, samples: Iterable[Sample]) -> None:
        self.at = at
        self._producers: defaultdict[ProducerKey, ProducerValues] = defaultdict(ProducerValues)
        for name, labels, value in samples:
            client_id = labels.get("client_id")
            if client_id is None or not name.startswith(PREFIXES):
                continue
            place = next((labels[label] for label in _PLACES if label in labels), "")
            key = ProducerKey(_shown(client_id), _shown(labels.get("pid", "")))
            self._producers[key].put(name, _shown(place), value)

    def __iter__(self) -> Iterator[tuple[ProducerKey, ProducerValues]]:
        return iter(sorted(self._producers.items()))

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, key: ProducerKey) -> ProducerValues | None:
        """The values of a producer; None: it is not there."""
        return self._producers.get(key)


def _shown(text: str) -> str:
    """``text`` without characters that would control a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def quantile(fraction: float, buckets: Mapping[float, float]) -> float:
    """The value that ``fraction`` of all values do not exceed, by interpolation in its bucket.

    ``buckets``: the number of values up to each upper bound; the greatest bound is infinity. NaN
    without values. A value above the last finite bound is treated as that bound.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf or not buckets[math.inf] > 0:
        return math.nan
    rank = fraction * buckets[math.inf]
    lower, below = 0.0, 0.0
    for bound in bounds[:-1]:
        up_to = buckets[bound]
        if up_to >= rank and up_to > below:
            return lower + (bound - lower) * max(0.0, rank - below) / (up_to - below)
        lower, below = bound, max(below, up_to)
    return lower


_LATENCY: Final = "aioproducer_record_latency_seconds_bucket"
_SHORTEST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic: rates by second, and counts of the interval. NaN: not known yet."""

    topic: str
    records_per_second: float
    bytes_per_second: float
    retries: float
    errors: float


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """A broker: rates by second, and counts of the interval. NaN: not known yet."""

    node: str
    state: str
    """``connected``, ``failing``, ``idle``, or empty if it is not known."""
    requests_per_second: float
    bytes_per_second: float
    in_flight: float
    retries: float
    errors: float


@dataclass(frozen=True, slots=True)
class ProducerFigures:
    """A producer over one interval. NaN: not known, or no value."""

    producer: ProducerKey
    state: str
    """``writes``, ``can't write``, ``dead``, or ``idle``: not known, without a connection."""
    outage: float
    """Seconds since it can't write."""
    records_per_second: float
    bytes_per_second: float
    p50: float
    """Seconds from a record's send to its acknowledgement."""
    p99: float
    in_flight: float
    """Requests without a response."""
    memory_used: float
    """From 0 to 1."""
    oldest_record_age: float
    """Seconds."""
    pending_records: float
    retries: float
    """Records put back in the interval."""
    errors: float
    """Records that failed in the interval."""
    retries_total: float
    errors_total: float
    topics: tuple[TopicFigures, ...]
    """The busiest first."""
    brokers: tuple[BrokerFigures, ...]

    def as_dict(self) -> dict[str, Any]:
        """The figures, as JSON has them: None in place of NaN."""
        own = {
            "client_id": self.producer.client_id,
            "pid": self.producer.pid or None,
            "state": self.state,
            "outage_seconds": self.outage,
            "records_per_second": self.records_per_second,
            "bytes_per_second": self.bytes_per_second,
            "latency_ms": {"p50": self.p50 * 1000, "p99": self.p99 * 1000},
            "requests_in_flight": self.in_flight,
            "memory_used": self.memory_used,
            "oldest_record_age_seconds": self.oldest_record_age,
            "pending_records": self.pending_records,
            "retries": self.retries,
            "errors": self.errors,
            "retries_total": self.retries_total,
            "errors_total": self.errors_total,
            "topics": [_fields(each) for each in self.topics],
            "brokers": [_fields(each) for each in self.brokers],
        }
        return {name: _without_nan(value) for name, value in own.items()}


def figures(before: Snapshot | None, now: Snapshot) -> list[ProducerFigures]:
    """The figures of all producers; without ``before``, latencies are those since the start."""
    elapsed = math.nan if before is None else max(now.at - before.at, _SHORTEST)
    return [
        _Interval(before.get(key) if before else None, values, elapsed, before is not None).of(key)
        for key, values in now
    ]


class _Interval:
    """The time between two snapshots of a producer."""

    def __init__(
        self, before: ProducerValues | None, now: ProducerValues, elapsed: float, is_known: bool
    ) -> None:
        self._before = before
        self._now = now
        self._elapsed = elapsed
        self._is_known = is_known

    def of(self, key: ProducerKey) -> ProducerFigures:
        latency = self._latency()
        return ProducerFigures(
            producer=key,
            state=self._state(),
            outage=self._level("aioproducer_outage_seconds"),
            records_per_second=self._rate("kafka_producer_record_send_total"),
            bytes_per_second=self._rate("kafka_producer_outgoing_byte_total"),
            p50=quantile(0.5, latency),
            p99=quantile(0.99, latency),
            in_flight=self._level("kafka_producer_requests_in_flight"),
            memory_used=self._level("aioproducer_memory_used_ratio"),
            oldest_record_age=self._level("aioproducer_oldest_record_age_seconds"),
            pending_records=self._level("aioproducer_pending_records"),
            retries=self._increase("kafka_producer_record_retry_total"),
            errors=self._increase("kafka_producer_record_error_total"),
            retries_total=self._level("kafka_producer_record_retry_total"),
            errors_total=self._level("kafka_producer_record_error_total"),
            topics=self._topics(),
            brokers=self._brokers(),
        )

    def _state(self) -> str:
        if self._level("aioproducer_live") == 0:
            return "dead"
        can_write = self._now.value("aioproducer_can_write")
        if can_write is None:
            return "idle"
        return "writes" if can_write else "can't write"

    def _topics(self) -> tuple[TopicFigures, ...]:
        found = [
            TopicFigures(
                topic,
                self._rate("kafka_producer_topic_record_send_total", topic),
                self._rate("kafka_producer_topic_byte_total", topic),
                self._increase("kafka_producer_topic_record_retry_total", topic),
                self._increase("kafka_producer_topic_record_error_total", topic),
            )
            for topic in self._now.places("kafka_producer_topic_record_send_total")
        ]
        found.sort(key=lambda each: (-_number(each.errors), -_number(each.records_per_second)))
        return tuple(found)

    def _brokers(self) -> tuple[BrokerFigures, ...]:
        nodes = {
            **self._now.places("kafka_producer_node_request_total"),
            **self._now.places("aioproducer_broker_connected"),
        }
        found = [
            BrokerFigures(
                node,
                self._broker_state(node),
                self._rate("kafka_producer_node_request_total", node),
                self._rate("kafka_producer_node_outgoing_byte_total", node),
                self._level("aioproducer_broker_requests_in_flight", node),
                self._increase("kafka_producer_node_record_retry_total", node),
                self._increase("kafka_producer_node_record_error_total", node),
            )
            for node in sorted(nodes, key=_order)
        ]
        # A bootstrap server that was asked once is no news.
        return tuple(each for each in found if each.state or each.requests_per_second > 0)

    def _broker_state(self, node: str) -> str:
        connected = self._now.value("aioproducer_broker_connected", node)
        if connected is None:
            return ""
        if self._now.value("aioproducer_broker_failing", node):
            return "failing"
        return "connected" if connected else "idle"

    def _level(self, name: str, place: str = "") -> float:
        value = self._now.value(name, place)
        return math.nan if value is None else value

    def _increase(self, name: str, place: str = "") -> float:
        """The increase of a counter in the interval; a smaller count than before is a new one."""
        now = self._now.value(name, place)
        if now is None or not self._is_known:
            return math.nan
        was = (self._before.value(name, place) if self._before else None) or 0.0
        return now - was if now >= was else now

    def _rate(self, name: str, place: str = "") -> float:
        return self._increase(name, place) / self._elapsed

    def _latency(self) -> Mapping[float, float]:
        now = _buckets(self._now)
        was = _buckets(self._before) if self._before else {}
        if any(now.get(bound, 0.0) < count for bound, count in was.items()):
            return now  # a new producer of the same name
        return {bound: count - was.get(bound, 0.0) for bound, count in now.items()}


def _buckets(values: ProducerValues) -> dict[float, float]:
    found = {}
    for bound, count in values.places(_LATENCY).items():
        with suppress(ValueError):
            found[float(bound)] = count
    return found


def _order(node: str) -> tuple[bool, int, str]:
    """By number; bootstrap servers, which have negative ones, come last."""
    try:
        number = int(node)
    except ValueError:
        return (True, 0, node)
    return (number < 0, abs(number), node)


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _fields(record: TopicFigures | BrokerFigures) -> dict[str, Any]:
    return {name: _without_nan(getattr(record, name)) for name in record.__slots__}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    return value
