"""A snapshot of the metrics as a broker takes it: OTLP, compressed, within its limit. No I/O.

The functions for OTLP's ``MetricsData`` (protobuf) each return the content of one message, and
their caller puts it into a field. Numbers of fields are those of
``opentelemetry/proto/metrics/v1/metrics.proto``.

The :class:`Collector` also has the counts that brokers have by now. Source: Kafka's
``KafkaMetricsCollector``. Unlike there, a count that no broker has acknowledged is part of the next
delta.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from enum import IntEnum
from math import isfinite
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.engine.records.compression import Compression, compression
from aioproducer.engine.telemetry.subscription import (
    MetricGroup,
    MetricGroups,
    Selection,
    is_sum,
    telemetry_name,
)
from aioproducer.foundation import tuning
from aioproducer.foundation.codecs import is_loaded
from aioproducer.foundation.varint import unsigned_varint
from aioproducer.foundation.version import __version__

__all__ = [
    "PointHeads",
    "Temporality",
    "gauge",
    "gauge_point",
    "metrics_data",
    "point_heads",
    "sum_",
    "sum_point",
    "Collected",
    "Collector",
    "UNCOMPRESSED",
    "Payload",
    "fitting",
    "first_available",
]


_LENGTH_DELIMITED: Final = 2
_STR_ERRORS: Final = "replace"
"""Protobuf's strings are UTF-8; a lone surrogate becomes a question mark."""

_TIME_AND_DOUBLE: Final = Struct("<BQBd")
_START_TIME_AND_DOUBLE: Final = Struct("<BQBQBd")
_START: Final = 2 << 3 | 1
_TIME: Final = 3 << 3 | 1
_AS_DOUBLE: Final = 4 << 3 | 1
"""The tags of a point's fields of 8 bytes."""


class Temporality(IntEnum):
    """OTLP's ``AggregationTemporality``."""

    DELTA = 1
    """Each value is the growth since the value before."""
    CUMULATIVE = 2
    """Each value is the growth since the start."""


def _field(number: int, content: bytes) -> bytes:
    """A message, a string or bytes in the field ``number``."""
    return b"%b%b%b" % (
        unsigned_varint(number << 3 | _LENGTH_DELIMITED),
        unsigned_varint(len(content)),
        content,
    )


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", _STR_ERRORS))


def _number(field: int, value: int) -> bytes:
    return unsigned_varint(field << 3) + unsigned_varint(value)


def _attribute(key: str, value: str) -> bytes:
    """A ``KeyValue`` with a string."""
    return _text(1, key) + _field(2, _text(1, value))


class PointHeads(NamedTuple):
    """The beginnings of the data points with the same attributes; the values come after them."""

    gauge: bytes
    sum_: bytes


def point_heads(attributes: Mapping[str, str]) -> PointHeads:
    """The beginnings of data points with ``attributes``, which are encoded once for all of them."""
    content = b"".join(_field(7, _attribute(*pair)) for pair in attributes.items())
    tag = unsigned_varint(1 << 3 | _LENGTH_DELIMITED)
    return PointHeads(
        tag + unsigned_varint(len(content) + _TIME_AND_DOUBLE.size) + content,
        tag + unsigned_varint(len(content) + _START_TIME_AND_DOUBLE.size) + content,
    )


def gauge_point(heads: PointHeads, time_ns: int, value: float) -> bytes:
    """A data point in the list of a ``Gauge``."""
    return heads.gauge + _TIME_AND_DOUBLE.pack(_TIME, time_ns, _AS_DOUBLE, value)


def sum_point(heads: PointHeads, start_ns: int, time_ns: int, value: float) -> bytes:
    """A data point in the list of a ``Sum``: the growth from ``start_ns`` to ``time_ns``."""
    return heads.sum_ + _START_TIME_AND_DOUBLE.pack(
        _START, start_ns, _TIME, time_ns, _AS_DOUBLE, value
    )


def gauge(name: str, points: bytes) -> bytes:
    """A ``Metric`` in the list of a scope: momentary values."""
    return _field(2, _text(1, name) + _field(5, points))


def sum_(name: str, points: bytes, temporality: Temporality) -> bytes:
    """A ``Metric`` in the list of a scope: counts that only grow."""
    content = points + _number(2, temporality) + _number(3, True)
    return _field(2, _text(1, name) + _field(7, content))


def metrics_data(
    resource: Mapping[str, str], scope: tuple[str, str], metrics: Iterable[bytes]
) -> bytes:
    """A whole ``MetricsData``: the metrics of one resource.

    ``resource``: attributes. ``scope``: name and version of the library that measures.
    """
    described = b"".join(_field(1, _attribute(*pair)) for pair in resource.items())
    name, version = scope
    measured = _field(1, _text(1, name) + _text(2, version)) + b"".join(metrics)
    return _field(1, _field(1, described) + _field(2, measured))


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


UNCOMPRESSED: Final = 0
"""The number of the codec that changes nothing."""

_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
"""Kafka's numbers of the codecs."""

_SCOPE: Final = ("aioproducer", __version__)


class Payload(NamedTuple):
    """The content of a push."""

    compression_id: int
    data: bytes
    left_out: tuple[str, ...]
    """The groups of metrics for which there was no room."""


def first_available(accepted: Iterable[int], refused: Collection[int]) -> Compression | None:
    """The first codec of ``accepted`` that is loaded and not in ``refused``; None: no codec.

    A broker names the codecs in the order of its preference. Numbers that are no codec are
    skipped, and so are codecs whose library would have to be imported.
    """
    for number in accepted:
        if number == UNCOMPRESSED:
            return None
        name = _NAMES.get(number)
        if name is not None and number not in refused and is_loaded(name):
            return compression(name)
    return None


def fitting(
    groups: Mapping[str, bytes],
    resource: Mapping[str, str],
    codec: Compression | None,
    limit: int,
) -> Payload | None:
    """A payload of at most ``limit`` bytes; None: not even the first group fits.

    The groups are left out from the last one on: those of thousands of topics or partitions come
    before those of the client itself.
    """
    names = list(groups)
    while names:
        data = metrics_data(resource, _SCOPE, (groups[name] for name in names))
        if codec is not None:
            data = codec.compress(memoryview(data))
        if len(data) <= limit:
            number = UNCOMPRESSED if codec is None else codec.id
            return Payload(number, data, tuple(groups)[len(names) :])
        names.pop()
    return None
