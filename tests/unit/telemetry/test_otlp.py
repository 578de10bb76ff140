"""The encoder of OTLP, judged by the decoder of OpenTelemetry's own messages."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from aioproducer.engine.telemetry.payload import (
    Temporality,
    gauge,
    gauge_point,
    metrics_data,
    point_heads,
    sum_,
    sum_point,
)

SCOPE = ("aioproducer", "1.2.3")
TIMES = some.integers(0, 2**64 - 1)
TEXTS = some.text(max_size=400)
PAIRS = some.dictionaries(TEXTS, TEXTS, max_size=4)
VALUES = some.floats(allow_nan=False)


def attributes(of: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in of.attributes}


def decoded(data: bytes) -> Any:
    """The message; a field that its schema lacks is an error."""
    message = MetricsData.FromString(data)
    known = MetricsData.FromString(data)
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize()
    return message


def test_nothing_is_a_message_too() -> None:
    (resource,) = decoded(metrics_data({}, SCOPE, ())).resource_metrics
    assert attributes(resource.resource) == {}
    (scope,) = resource.scope_metrics
    assert (scope.scope.name, scope.scope.version) == SCOPE
    assert len(scope.metrics) == 0


@given(resource=PAIRS, name=TEXTS, tags=PAIRS, time=TIMES, value=VALUES)
def test_a_gauge(
    resource: dict[str, str], name: str, tags: dict[str, str], time: int, value: float
) -> None:
    points = gauge_point(point_heads(tags), time, value) + gauge_point(point_heads({}), 7, 0.5)
    data = decoded(metrics_data(resource, SCOPE, [gauge(name, points)]))
    (found,) = data.resource_metrics
    assert attributes(found.resource) == resource
    (metric,) = found.scope_metrics[0].metrics
    assert metric.name == name
    assert metric.WhichOneof("data") == "gauge"
    first, second = metric.gauge.data_points
    assert attributes(first) == tags
    assert (first.time_unix_nano, first.as_double) == (time, value)
    assert first.WhichOneof("value") == "as_double"
    assert first.start_time_unix_nano == 0
    assert (second.time_unix_nano, second.as_double) == (7, 0.5)


@given(name=TEXTS, tags=PAIRS, start=TIMES, time=TIMES, value=VALUES)
def test_a_sum(name: str, tags: dict[str, str], start: int, time: int, value: float) -> None:
    point = sum_point(point_heads(tags), start, time, value)
    metrics = [sum_(name, point, temporality) for temporality in Temporality]
    data = decoded(metrics_data({}, SCOPE, metrics))
    delta, cumulative = data.resource_metrics[0].scope_metrics[0].metrics
    assert delta.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert (
        cumulative.sum.aggregation_temporality
        == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    for metric in (delta, cumulative):
        assert metric.name == name
        assert metric.sum.is_monotonic
        (found,) = metric.sum.data_points
        assert attributes(found) == tags
        assert (found.start_time_unix_nano, found.time_unix_nano) == (start, time)
        assert found.as_double == value


def test_a_lone_surrogate_is_no_reason_to_fail() -> None:
    data = decoded(metrics_data({"transactional_id": "a\ud800b"}, SCOPE, ()))
    assert attributes(data.resource_metrics[0].resource) == {"transactional_id": "a?b"}
