from __future__ import annotations

import re

import pytest

from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.metrics.names import (
    GAUGES,
    NODE_METRICS,
    PRODUCER_METRICS,
    TOPIC_METRICS,
    Gauge,
    markdown,
)

JAVA_PRODUCER = """
    batch-size-avg batch-size-max batch-split-rate batch-split-total
    buffer-available-bytes buffer-exhausted-rate buffer-exhausted-total buffer-total-bytes
    bufferpool-wait-ratio bufferpool-wait-time-ns-total compression-rate-avg
    connection-close-rate connection-close-total connection-count
    connection-creation-rate connection-creation-total failed-authentication-rate
    failed-authentication-total failed-reauthentication-rate failed-reauthentication-total
    flush-time-ns-total
    incoming-byte-rate incoming-byte-total metadata-age metadata-wait-time-ns-total
    network-io-rate network-io-total outgoing-byte-rate outgoing-byte-total
    produce-throttle-time-avg produce-throttle-time-max reauthentication-latency-avg
    reauthentication-latency-max record-error-rate record-error-total
    record-queue-time-avg record-queue-time-max record-retry-rate record-retry-total
    record-send-rate record-send-total record-size-avg record-size-max records-per-request-avg
    request-latency-avg request-latency-max request-rate request-size-avg request-size-max
    request-total requests-in-flight response-rate response-total
    successful-authentication-rate successful-authentication-total
    successful-reauthentication-rate successful-reauthentication-total
    txn-abort-time-ns-total txn-begin-time-ns-total txn-commit-time-ns-total txn-init-time-ns-total
    txn-send-offsets-time-ns-total waiting-threads
"""
OWN_PRODUCER = {
    f"{name}-{figure}"
    for name in ("record-latency", "record-wait-time", "broker-time")
    for figure in ("avg", "max", "p50", "p95", "p99", "p999")
} | {
    f"{name}-{figure}"
    for name in ("record-queue-time", "request-latency")
    for figure in ("p50", "p95", "p99", "p999")
}
OWN_NODE = {"record-retry-rate", "record-retry-total", "record-error-rate", "record-error-total"}
"""The metrics that the Java producer lacks."""

JAVA_TOPIC = """
    byte-rate byte-total compression-rate record-error-rate record-error-total
    record-retry-rate record-retry-total record-send-rate record-send-total
"""
JAVA_NODE = """
    incoming-byte-rate incoming-byte-total outgoing-byte-rate outgoing-byte-total
    request-latency-avg request-latency-max request-rate request-size-avg request-size-max
    request-total response-rate response-total
"""

GROUPS: dict[str, tuple[tuple[Gauge, ...], set[str]]] = {
    "producer-metrics": ((*PRODUCER_METRICS, *GAUGES), {*JAVA_PRODUCER.split(), *OWN_PRODUCER}),
    "producer-topic-metrics": (TOPIC_METRICS, set(JAVA_TOPIC.split())),
    "producer-node-metrics": (NODE_METRICS, {*JAVA_NODE.split(), *OWN_NODE}),
}


@pytest.mark.parametrize("group", GROUPS)
def test_names_are_those_of_the_java_producer_and_our_own(group: str) -> None:
    rows, names = GROUPS[group]
    assert sorted(row.name for row in rows) == sorted(names)


def test_a_snapshot_has_the_names_of_the_table() -> None:
    metrics = ProducerMetrics(now=0.0)
    metrics.records_failed("orders", 1, 0.0)
    metrics.request_sent(1, 10, 0.0)
    snapshot = metrics.snapshot(0.0, gauges={gauge.name: 0.0 for gauge in GAUGES})
    assert set(snapshot) == set(GROUPS)
    for group, values in (
        ("producer-metrics", snapshot["producer-metrics"]),
        ("producer-topic-metrics", snapshot["producer-topic-metrics"]["orders"]),
        ("producer-node-metrics", snapshot["producer-node-metrics"]["node-1"]),
    ):
        assert list(values) == [row.name for row in GROUPS[group][0]]
        assert {type(value) for value in values.values()} == {float}


def test_every_row_says_what_it_means() -> None:
    for rows, _ in GROUPS.values():
        for row in rows:
            assert row.unit
            assert row.meaning[0].isupper()
            assert "|" not in row.meaning + row.unit


def test_markdown_lists_every_metric_in_its_group() -> None:
    for section in markdown().split("### ")[1:]:
        group, _, table = section.partition("\n")
        names = re.findall(r"^\| `([\w-]+)` \| \S+ \| .+ \|$", table, re.MULTILINE)
        assert names == [row.name for row in GROUPS[group][0]]
