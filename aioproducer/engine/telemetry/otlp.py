"""The encoding of OTLP's ``MetricsData`` (protobuf), as far as telemetry needs it. No I/O.

Each function returns the content of one message, and its caller puts it into a field. Numbers of
fields are those of ``opentelemetry/proto/metrics/v1/metrics.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from aioproducer.foundation.varint import unsigned_varint

__all__ = [
    "PointHeads",
    "Temporality",
    "gauge",
    "gauge_point",
    "metrics_data",
    "point_heads",
    "sum_",
    "sum_point",
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
