"""Instruments of OpenTelemetry: the conventions' client metrics, and the producers' own metrics.

The semantic conventions ask for one value for each batch. The producers' own metrics are observable
instruments, whose names, units and meanings come from :mod:`aioproducer.engine.metrics.names`.
Rates are omitted, because they follow from the totals. Times are seconds, as OpenTelemetry asks.
All producers share the instruments of a meter provider.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from opentelemetry import metrics
from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    Meter,
    MeterProvider,
    Observation,
)

from aioproducer.engine.metrics.names import GROUPS
from aioproducer.engine.observer import BatchOutcome, ObservedProducer
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.foundation.version import __version__
from aioproducer.model import Node
from aioproducer.observability.otel.conventions import (
    CLIENT_ID,
    DESTINATION,
    ERROR_TYPE,
    NODE_ID,
    OPERATION,
    PARTITION,
    SCHEMA_URL,
    Attributes,
    add_server,
    error_type,
)
from aioproducer.observability.otel.options import emits_old_names
from aioproducer.observability.otel.spans import SCOPE

__all__ = [
    "BatchInstruments",
    "BatchMetrics",
    "ProducerInstruments",
    "Spec",
    "specs",
    "Instruments",
    "instruments_of",
]


_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_MOST_CACHED: Final = 10_000


class BatchInstruments(NamedTuple):
    """The instruments that all producers of a meter share."""

    durations: tuple[Histogram, ...]
    messages: tuple[Counter, ...]

    @classmethod
    def of(cls, meter: Meter, *, old: bool) -> BatchInstruments:
        """Make the instruments; ``old``: those of version 1.24 as well."""
        durations = ["messaging.client.operation.duration"]
        messages = ["messaging.client.sent.messages"]
        if old:
            durations.append("messaging.publish.duration")
            messages.append("messaging.publish.messages")
        return cls(
            tuple(
                meter.create_histogram(
                    name,
                    unit="s",
                    description="Time from the first record of a batch to its outcome.",
                    explicit_bucket_boundaries_advisory=_BOUNDARIES,
                )
                for name in durations
            ),
            tuple(
                meter.create_counter(
                    name,
                    unit="{message}",
                    description="Number of messages producer attempted to send to the broker.",
                )
                for name in messages
            ),
        )


class BatchMetrics:
    """Counts the batches of one producer, with names for ``max_topics`` topics at most."""

    def __init__(self, instruments: BatchInstruments, max_topics: int) -> None:
        self._instruments = instruments
        self._max_topics = max_topics
        self._topics: set[str] = set()
        self._cache: dict[tuple[object, ...], Attributes] = {}

    def count(self, outcome: BatchOutcome, node: Node | None) -> None:
        """Count a batch; ``node``: the broker of its last attempt, if its address is known."""
        error = None if outcome.error is None else error_type(outcome.error)
        key = (*outcome.topic_partition, node, error)
        attributes = self._cache.get(key)
        if attributes is None:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            attributes = self._cache[key] = self._attributes(outcome, node, error)
        for duration in self._instruments.durations:
            duration.record(outcome.seconds, attributes)
        if outcome.node == -1:
            return  # never sent: not a message that the producer attempted to send
        for messages in self._instruments.messages:
            messages.add(outcome.records, attributes)

    def _attributes(
        self, outcome: BatchOutcome, node: Node | None, error: str | None
    ) -> Attributes:
        attributes = dict(OPERATION)
        topic, partition = outcome.topic_partition
        if topic in self._topics or len(self._topics) < self._max_topics:
            self._topics.add(topic)
            attributes[DESTINATION] = topic
            attributes[PARTITION] = str(partition)
        add_server(attributes, node)
        if error is not None:
            attributes[ERROR_TYPE] = error
        return attributes


logger = plain_logger("aioproducer.observability.otel")

_SECONDS: Final = {"ms": 1e-3, "ns": 1e-9, "s": 1.0}
_UNITS: Final = {"ms": "s", "ns": "s", "s": "s", "bytes": "By", "ratio": "1", "": "1"}
_PREFIXES: Final = {
    "producer-metrics": "aioproducer",
    "producer-topic-metrics": "aioproducer.topic",
    "producer-node-metrics": "aioproducer.node",
}
_ENDINGS: Final = ("-total", "-ns", "-bytes")


class Spec(NamedTuple):
    """An instrument, and the metric that it shows."""

    group: str
    metric: str
    name: str
    unit: str
    description: str
    scale: float
    is_counter: bool


def specs() -> Iterator[Spec]:
    """All instruments."""
    for group, prefix in _PREFIXES.items():
        yield from _of_group(group, prefix)


def _of_group(group: str, prefix: str) -> Iterator[Spec]:
    for metric in GROUPS[group]:
        if metric.unit.endswith("/s"):
            continue
        yield Spec(
            group,
            metric.name,
            f"{prefix}.{_name(metric.name)}",
            _UNITS.get(metric.unit, f"{{{metric.unit.removesuffix('s')}}}"),
            metric.meaning.replace("`", ""),
            _SECONDS.get(metric.unit, 1.0),
            is_counter=metric.name.endswith("-total"),
        )


def _name(metric: str) -> str:
    for ending in _ENDINGS:
        metric = metric.removesuffix(ending)
    return metric.replace("-", "_")


class _Entry(NamedTuple):
    producer: weakref.ref[ObservedProducer]
    client_id: str
    max_topics: int


class ProducerInstruments:
    """The instruments of all producers of one meter.

    A collection asks each instrument once, on a thread of the exporter. The first one that is asked
    again begins the next collection, and there the metrics of all producers are read.
    """

    def __init__(self, meter: Meter) -> None:
        self._lock = free_lock()
        self._producers: dict[object, _Entry] = {}
        self._asked: set[Spec] = set()
        self._snapshots: list[tuple[_Entry, Mapping[str, Mapping[str, Any]]]] = []
        for spec in specs():
            create = (
                meter.create_observable_counter
                if spec.is_counter
                else meter.create_observable_gauge
            )
            create(
                spec.name,
                callbacks=[_Callback(self, spec)],
                unit=spec.unit,
                description=spec.description,
            )

    def add(self, key: object, producer: ObservedProducer, max_topics: int) -> None:
        """Show a producer, until :meth:`remove`, or until the producer is forgotten."""
        self._producers[key] = _Entry(weakref.ref(producer), producer.client_id, max_topics)

    def remove(self, key: object) -> None:
        """Show a producer no longer, from the next collection on. The call never waits."""
        self._producers.pop(key, None)

    def observe(self, spec: Spec) -> list[Observation]:
        """The values of an instrument."""
        with self._lock:
            if spec in self._asked or not self._asked:
                self._asked.clear()
                self._snapshots = list(self._read())
            self._asked.add(spec)
            snapshots = self._snapshots
        return [
            Observation(value * spec.scale, attributes)
            for entry, snapshot in snapshots
            for value, attributes in _values(entry, snapshot, spec)
            if not math.isnan(value)
        ]

    def _read(self) -> Iterator[tuple[_Entry, Mapping[str, Mapping[str, Any]]]]:
        for key, entry in list(self._producers.items()):
            producer = entry.producer()
            if producer is None:
                self.remove(key)
                continue
            try:
                yield entry, producer.metrics()
            except Exception:  # not started yet, or in the middle of its end
                logger.debug("The metrics of %r are not readable", entry.client_id, exc_info=True)


class _Callback:
    """An instrument's callback."""

    def __init__(self, instruments: ProducerInstruments, spec: Spec) -> None:
        self._instruments = instruments
        self._spec = spec

    def __call__(self, options: CallbackOptions) -> list[Observation]:
        return self._instruments.observe(self._spec)


def _values(
    entry: _Entry, snapshot: Mapping[str, Mapping[str, Any]], spec: Spec
) -> Iterator[tuple[float, Attributes]]:
    group = snapshot.get(spec.group, {})
    client: Attributes = {CLIENT_ID: entry.client_id}
    if spec.group == "producer-metrics":
        if spec.metric in group:
            yield group[spec.metric], client
    elif spec.group == "producer-topic-metrics":
        for topic, values in islice(group.items(), entry.max_topics):
            yield values.get(spec.metric, math.nan), client | {DESTINATION: topic}
    else:
        for node, values in group.items():
            node_id = node.removeprefix("node-")
            yield values.get(spec.metric, math.nan), client | {NODE_ID: node_id}


class Instruments(NamedTuple):
    """All instruments of a meter."""

    batches: BatchInstruments
    producers: ProducerInstruments


_OF_PROVIDER: Final[weakref.WeakKeyDictionary[MeterProvider, Instruments]] = (
    weakref.WeakKeyDictionary()
)
_OF_GLOBAL_PROVIDER: Final[dict[None, Instruments]] = {}
"""The instruments of the global provider, which may be set later: its proxies become real then."""


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """The instruments of a provider; None: of the global one."""
    if provider is None or provider is metrics.get_meter_provider():
        found = _OF_GLOBAL_PROVIDER.get(None)
        return found or _OF_GLOBAL_PROVIDER.setdefault(None, _made(metrics.get_meter_provider()))
    return _OF_PROVIDER.get(provider) or _OF_PROVIDER.setdefault(provider, _made(provider))


def _made(provider: MeterProvider) -> Instruments:
    meter = provider.get_meter(SCOPE, __version__, schema_url=SCHEMA_URL)
    return Instruments(
        BatchInstruments.of(meter, old=emits_old_names()), ProducerInstruments(meter)
    )
