"""Metrics through the OpenTelemetry API."""

from __future__ import annotations

import gc
import logging
import math
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.metrics.names import GAUGES, NODE_METRICS, PRODUCER_METRICS, TOPIC_METRICS
from aioproducer.engine.observer import BatchOutcome, RequestOutcome
from aioproducer.errors import ConfigError, NotEnoughReplicasError
from aioproducer.model import Node, NodeId, TopicPartition
from aioproducer.observability.otel.instrumentation import observer_of
from aioproducer.observability.otel.metrics import specs
from aioproducer.observability.otel.options import Options
from tests.support.otel import InMemorySdk
from tests.unit.observability.otel.tracing import StandIn, Traced

BROKER = Node(2, "kafka-2.example", 9092)
ORDERS = TopicPartition("orders", 3)


def batch(
    place: TopicPartition = ORDERS, node: NodeId = 2, error: BaseException | None = None
) -> BatchOutcome:
    return BatchOutcome(place, node, 10, 1_000, 0.03, error)


def points(metric: Any) -> list[tuple[dict[str, Any], Any]]:
    return [(dict(point.attributes), point) for point in metric.data.data_points]


def test_one_value_for_each_batch() -> None:
    traced = Traced()
    traced.observer.request_ended(RequestOutcome(BROKER, {ORDERS: (20, 2_000)}, 0.01, None))
    for _ in range(2):
        traced.observer.batch_ended(batch())
    metrics = traced.metrics()
    expected = {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "server.address": "kafka-2.example",
        "server.port": 9092,
    }
    duration = metrics["messaging.client.operation.duration"]
    ((attributes, point),) = points(duration)
    assert (duration.unit, attributes) == ("s", expected)
    assert (point.count, point.sum) == (2, pytest.approx(0.06))
    assert point.explicit_bounds[:3] == (0.005, 0.01, 0.025)
    sent = metrics["messaging.client.sent.messages"]
    ((attributes, point),) = points(sent)
    assert (sent.unit, attributes, point.value) == ("{message}", expected, 20)
    assert "messaging.publish.duration" not in metrics


def test_failed_batches_have_their_error() -> None:
    traced = Traced()
    traced.observer.batch_ended(batch(error=NotEnoughReplicasError("2 of 3")))
    metrics = traced.metrics()
    for name in ("messaging.client.operation.duration", "messaging.client.sent.messages"):
        ((attributes, _),) = points(metrics[name])
        assert attributes["error.type"] == "NOT_ENOUGH_REPLICAS"


def test_records_that_were_never_sent_do_not_count() -> None:
    traced = Traced()
    traced.observer.batch_ended(batch(node=-1, error=TimeoutError("late")))
    metrics = traced.metrics()
    assert points(metrics["messaging.client.operation.duration"])
    assert "messaging.client.sent.messages" not in metrics


def test_the_number_of_topics_is_bounded() -> None:
    traced = Traced(max_topics=2)
    for number in range(5):
        traced.observer.batch_ended(batch(TopicPartition(f"topic-{number}", 0)))
    found = points(traced.metrics()["messaging.client.sent.messages"])
    assert {each.get("messaging.destination.name"): point.value for each, point in found} == {
        "topic-0": 10,
        "topic-1": 10,
        None: 30,
    }


def test_the_names_of_1_24_beside_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "messaging/dup")
    traced = Traced()
    traced.observer.batch_ended(batch())
    assert traced.metrics().keys() >= {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.publish.duration",
        "messaging.publish.messages",
    }


def test_metrics_alone_ask_about_no_record() -> None:
    assert Traced().observer.traces
    traced = Traced(traces=False)
    assert not traced.observer.traces
    assert traced.send() == (1 << 30, ())
    assert traced.observer.call_started("orders", None) is None


def test_no_metrics() -> None:
    traced = Traced(metrics=False)
    traced.observer.batch_ended(batch())
    assert traced.metrics() == {}


# --- the producer's own --------------------------------------------------------------------


def test_every_metric_but_the_rates_has_an_instrument() -> None:
    made = list(specs())
    names = [spec.name for spec in made]
    assert len(set(names)) == len(names)
    shown = {(spec.group, spec.metric) for spec in made}
    for group, metrics in (
        ("producer-metrics", (*PRODUCER_METRICS, *GAUGES)),
        ("producer-topic-metrics", TOPIC_METRICS),
        ("producer-node-metrics", NODE_METRICS),
    ):
        known = {metric.name for metric in metrics}
        for metric in metrics:
            is_rate = metric.name.endswith("-rate") and metric.unit != "ratio"
            assert ((group, metric.name) in shown) is not is_rate
            assert not is_rate or metric.name.removesuffix("rate") + "total" in known
    for spec in made:
        assert re.fullmatch(r"aioproducer(\.topic|\.node)?\.[a-z][a-z0-9_]*", spec.name)
        assert re.fullmatch(r"s|By|1|\{[a-z]+\}", spec.unit), spec


def groups() -> dict[str, Any]:
    return {
        "producer-metrics": {
            "record-send-total": 7.0,
            "record-queue-time-avg": 12.0,
            "flush-time-ns-total": 3e9,
            "batch-size-max": math.nan,
            "buffer-available-bytes": 1024.0,
        },
        "producer-topic-metrics": {
            "orders": {"record-send-total": 4.0},
            "audit": {"record-send-total": 3.0},
        },
        "producer-node-metrics": {"node-2": {"request-total": 5.0}},
    }


def test_values_units_and_attributes() -> None:
    sdk = InMemorySdk()
    producer = StandIn(**groups())
    observer = observer_of(producer, Options(), **sdk.providers)
    metrics = sdk.metrics()
    found = {
        name: [(attributes, point.value) for attributes, point in points(metric)]
        for name, metric in metrics.items()
    }
    client = {"messaging.client.id": "tests"}
    assert found == {
        "aioproducer.record_send": [(client, 7.0)],
        "aioproducer.record_queue_time_avg": [(client, 0.012)],
        "aioproducer.flush_time": [(client, 3.0)],
        "aioproducer.buffer_available": [(client, 1024.0)],
        "aioproducer.topic.record_send": [
            (client | {"messaging.destination.name": "orders"}, 4.0),
            (client | {"messaging.destination.name": "audit"}, 3.0),
        ],
        "aioproducer.node.request": [(client | {"aioproducer.node.id": "2"}, 5.0)],
    }
    assert metrics["aioproducer.record_send"].data.is_monotonic
    assert metrics["aioproducer.flush_time"].unit == "s"
    assert metrics["aioproducer.buffer_available"].unit == "By"
    observer.close()
    assert sdk.metrics() == {}


def test_metrics_are_read_once_in_each_collection() -> None:
    sdk = InMemorySdk()
    producers = [StandIn(f"producer-{number}", **groups()) for number in range(3)]
    observers = [observer_of(each, Options(), **sdk.providers) for each in producers]
    for collection in range(1, 4):
        assert len(points(sdk.metrics()["aioproducer.record_send"])) == 3
        assert [each.readings for each in producers] == [collection] * 3
    producers[0].groups["producer-metrics"]["record-send-total"] = 8.0
    found = points(sdk.metrics()["aioproducer.record_send"])
    assert [point.value for _, point in found] == [8.0, 7.0, 7.0]
    assert len(observers) == 3


def test_topics_of_a_producer_are_bounded() -> None:
    sdk = InMemorySdk()
    producer = StandIn(**groups())
    observer = observer_of(producer, Options(max_topics=1), **sdk.providers)
    assert len(points(sdk.metrics()["aioproducer.topic.record_send"])) == 1
    assert observer.context is not None


def test_a_bound_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_topics=-1"):
        Options(max_topics=-1)


def test_a_forgotten_producer_vanishes() -> None:
    sdk = InMemorySdk()
    producer = StandIn(**groups())
    observer = observer_of(producer, Options(), **sdk.providers)
    assert sdk.metrics()
    del producer
    gc.collect()
    assert sdk.metrics() == {}
    observer.close()


def test_a_producer_that_is_not_started_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class NotStarted(StandIn):
        def metrics(self) -> Any:
            raise RuntimeError("not started")

    sdk = InMemorySdk()
    producers = [NotStarted("early"), StandIn("started", **groups())]
    observers = [observer_of(each, Options(), **sdk.providers) for each in producers]
    with caplog.at_level(logging.INFO):
        assert len(points(sdk.metrics()["aioproducer.record_send"])) == 1
    assert caplog.records == []
    assert len(observers) == 2


class Counting(StandIn):
    """A producer whose counts move while they are read."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.counts = ProducerMetrics(now=0.0)
        self.now = 0.0

    def metrics(self) -> Any:
        return self.counts.snapshot(self.now, gauges={gauge.name: 0.0 for gauge in GAUGES})


def test_collections_on_other_threads_while_the_loop_counts() -> None:
    sdk = InMemorySdk()
    producer = Counting()
    observer = observer_of(producer, Options(max_topics=10_000), **sdk.providers)
    done = threading.Event()
    totals: list[float] = []
    failures: list[BaseException] = []

    def collect() -> None:
        try:
            while not done.is_set():
                found = sdk.metrics()["aioproducer.record_send"]
                totals.append(points(found)[0][1].value)
        except BaseException as error:
            failures.append(error)

    def count() -> Iterator[int]:
        for number in range(2_000):
            producer.now += 1
            topic = f"topic-{number % 300}"
            producer.counts.batch_sent(topic, 1, 10, 10, 10, 0.1, producer.now)
            if number % 50 == 0:
                producer.counts.forget_topic(topic)
            yield number

    sdk.metrics()
    collector = threading.Thread(target=collect)
    collector.start()
    try:
        for number in count():
            while len(totals) < number // 200 and not failures:
                pass
    finally:
        done.set()
        collector.join()
    assert failures == []
    assert totals == sorted(totals)
    assert observer.context is not None


def test_two_readers() -> None:
    sdk = InMemorySdk()
    other = InMemoryMetricReader()
    producer = StandIn(**groups())
    observer = observer_of(producer, Options(), **sdk.providers)
    sdk.meters.add_metric_reader(other)
    for _ in range(3):
        assert sdk.metrics()
        assert other.get_metrics_data() is not None
    assert producer.readings == 6
    assert observer.context is not None
