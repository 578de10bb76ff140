"""The names of metrics in telemetry, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from aioproducer.engine.metrics.names import GAUGES, NODE_METRICS, PRODUCER_METRICS, TOPIC_METRICS
from aioproducer.engine.telemetry.subscription import (
    Selection,
    is_sum,
    producer_groups,
    telemetry_name,
)
from aioproducer.engine.telemetry.subscription import selected as selected_of

REQUIRED = {
    "org.apache.kafka.producer.connection.creation.rate",
    "org.apache.kafka.producer.connection.creation.total",
    "org.apache.kafka.producer.node.request.latency.avg",
    "org.apache.kafka.producer.node.request.latency.max",
    "org.apache.kafka.producer.produce.throttle.time.avg",
    "org.apache.kafka.producer.produce.throttle.time.max",
    "org.apache.kafka.producer.record.queue.time.avg",
    "org.apache.kafka.producer.record.queue.time.max",
}
"""KIP-714: the metrics that every producer has to provide."""

GROUPS = producer_groups()


def selected(prefixes: Collection[str]) -> Selection:
    return selected_of(prefixes, GROUPS)


EVERYTHING = selected([""])


def names(*prefixes: str) -> set[str]:
    return {telemetry_name(GROUPS[group], name) for group, name in selected(prefixes)}


def test_every_metric_of_a_snapshot_can_be_chosen() -> None:
    tables = (PRODUCER_METRICS, GAUGES, NODE_METRICS, TOPIC_METRICS)
    assert len(EVERYTHING) == sum(map(len, tables))
    assert len(names("")) == len(EVERYTHING)


def test_the_required_metrics_have_the_names_of_the_kip() -> None:
    assert names("") >= REQUIRED
    for name in REQUIRED:
        assert name in names(name)


@pytest.mark.parametrize("prefixes", [["*"], ["", "x"], ["org.apache.kafka"], ["o", "org."]])
def test_everything(prefixes: list[str]) -> None:
    assert selected(prefixes) == EVERYTHING


@pytest.mark.parametrize(
    "prefixes",
    [[], ["org.apache.kafka.consumer."], ["kafka"], ["org.apache.kafka.producer.topic.zzz", "**"]],
)
def test_nothing(prefixes: list[str]) -> None:
    assert selected(prefixes) == frozenset()


def test_a_prefix() -> None:
    assert names("org.apache.kafka.producer.record.queue.time.a", "org.apache.kafka.admin") == {
        "org.apache.kafka.producer.record.queue.time.avg"
    }
    assert {group for group, _ in selected(["org.apache.kafka.producer.topic."])} == {
        "producer-topic-metrics"
    }


def test_sums_are_the_counts_since_the_start() -> None:
    assert is_sum("record-send-total")
    assert is_sum("flush-time-ns-total")
    assert not is_sum("record-send-rate")
    assert not is_sum("buffer-total-bytes")
