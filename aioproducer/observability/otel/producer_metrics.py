"""The producers' own metrics as observable instruments.

Names, units and meanings come from :mod:`aioproducer.engine.metrics.names`. Rates are omitted,
because they follow from the totals. Times are seconds, as OpenTelemetry asks.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from aioproducer.engine.metrics.names import GROUPS
from aioproducer.engine.observer import ObservedProducer
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.observability.otel.conventions import CLIENT_ID, DESTINATION, NODE_ID, Attributes

__all__ = ["ProducerInstruments", "Spec", "specs"]

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
