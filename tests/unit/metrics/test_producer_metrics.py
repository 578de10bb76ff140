from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.metrics import MetricsSnapshot, ProducerMetrics, TransactionCall
from aioproducer.engine.metrics.names import GAUGES
from aioproducer.model import BootstrapId

START = 500.0
ZERO_GAUGES = {gauge.name: 0.0 for gauge in GAUGES}


def metrics() -> ProducerMetrics:
    return ProducerMetrics(now=START)


def read(counted: ProducerMetrics, age: float = 0.0) -> MetricsSnapshot:
    return counted.snapshot(START + age, gauges=ZERO_GAUGES)


def drain(counted: ProducerMetrics, topic: str, records: int, age: float = 0.0) -> None:
    counted.batch_sent(topic, records, 50 * records, 100 * records, 120, 0.004, START + age)
    counted.request_built(records, START + age)


Record = Callable[[ProducerMetrics], None]


def two_batches(m: ProducerMetrics) -> None:
    m.batch_sent("a", 10, 400, 1000, 130, 0.002, START)
    m.batch_sent("b", 20, 1600, 2000, 190, 0.006, START)
    m.request_built(30, START)


def two_requests(m: ProducerMetrics) -> None:
    m.request_sent(1, 100, START)
    m.request_sent(BootstrapId("-1"), 300, START)
    m.response_received(1, 40, 0.5, START, 0.025)
    m.response_received(BootstrapId("-1"), 60, 0.0, START)


def waits(m: ProducerMetrics) -> None:
    m.buffer_waited(1.5, START)
    m.buffer_waited(0.5, START)
    m.metadata_waited(0.25, START)
    m.flushed(2.0, START)


def trouble(m: ProducerMetrics) -> None:
    m.records_retried("a", 4, START, 1)
    m.records_failed("b", 6, START, 1)
    m.batch_split(START)
    m.buffer_exhausted(START)
    m.connection_opened(START)
    m.connection_opened(START)
    m.connection_closed(START)


def latencies(m: ProducerMetrics) -> None:
    m.records_delivered(4, [(0, 1_000_000), (1, 11_000_000)], 21_000_000, START)
    m.record_waited(0.3, START)


def transactions(m: ProducerMetrics) -> None:
    calls: tuple[TransactionCall, ...] = ("init", "begin", "send_offsets", "commit", "abort")
    for seconds, call in enumerate(calls, start=1):
        m.transaction_call_ended(call, float(seconds), START)


def logins(m: ProducerMetrics) -> None:
    m.logged_in(START)
    m.logged_in(START)
    m.login_refused(START, renewal=False)
    m.login_renewed(0.25, START)
    m.login_renewed(0.75, START)
    m.login_refused(START, renewal=True)


def percentiles(name: str, median: float, highest: float) -> dict[str, float]:
    return {f"{name}-p50": median} | {f"{name}-{each}": highest for each in ("p95", "p99", "p999")}


LATENCIES = {
    "record-latency-avg": 12.5,
    "record-latency-max": 20.0,
    **percentiles("record-latency", 10.0, 20.0),
    "record-wait-time-avg": 300.0,
    "record-wait-time-max": 300.0,
    **percentiles("record-wait-time", 300.0, 300.0),
}
BROKER_TIMES = {
    "broker-time-avg": 15.0,
    "broker-time-max": 20.0,
    **percentiles("broker-time", 10.0, 20.0),
}
BATCHES = {
    "record-send-total": 30,
    "record-send-rate": 30 / 40,
    "batch-size-avg": 1000,
    "batch-size-max": 1600,
    "compression-rate-avg": 0.6,
    "record-size-avg": 160,
    "record-size-max": 190,
    "record-queue-time-avg": 4.0,
    "record-queue-time-max": 6.0,
    "records-per-request-avg": 30,
    **percentiles("record-queue-time", 2.0, 6.0),
}
REQUESTS = {
    "request-total": 2,
    "request-rate": 2 / 40,
    "request-size-avg": 200,
    "request-size-max": 300,
    "outgoing-byte-total": 400,
    "outgoing-byte-rate": 10,
    "response-total": 2,
    "response-rate": 2 / 40,
    "incoming-byte-total": 100,
    "incoming-byte-rate": 2.5,
    "network-io-total": 4,
    "network-io-rate": 4 / 40,
    "request-latency-avg": 25.0,
    "request-latency-max": 25.0,
    **percentiles("request-latency", 25.0, 25.0),
    "produce-throttle-time-avg": 250.0,
    "produce-throttle-time-max": 500.0,
}
WAITS = {
    "bufferpool-wait-ratio": 2.0 / 40,
    "bufferpool-wait-time-ns-total": 2e9,
    "metadata-wait-time-ns-total": 0.25e9,
    "flush-time-ns-total": 2e9,
}
TRANSACTIONS = {
    "txn-init-time-ns-total": 1e9,
    "txn-begin-time-ns-total": 2e9,
    "txn-send-offsets-time-ns-total": 3e9,
    "txn-commit-time-ns-total": 4e9,
    "txn-abort-time-ns-total": 5e9,
}
LOGINS = {
    "successful-authentication-total": 2,
    "successful-authentication-rate": 2 / 40,
    "failed-authentication-total": 1,
    "failed-authentication-rate": 1 / 40,
    "successful-reauthentication-total": 2,
    "successful-reauthentication-rate": 2 / 40,
    "failed-reauthentication-total": 1,
    "failed-reauthentication-rate": 1 / 40,
    "reauthentication-latency-avg": 500.0,
    "reauthentication-latency-max": 750.0,
}
TROUBLE = {
    "record-retry-total": 4,
    "record-retry-rate": 4 / 40,
    "record-error-total": 6,
    "record-error-rate": 6 / 40,
    "batch-split-total": 1,
    "batch-split-rate": 1 / 40,
    "buffer-exhausted-total": 1,
    "buffer-exhausted-rate": 1 / 40,
    "connection-creation-total": 2,
    "connection-creation-rate": 2 / 40,
    "connection-close-total": 1,
    "connection-close-rate": 1 / 40,
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (two_batches, BATCHES),
        (two_requests, REQUESTS),
        (waits, WAITS),
        (transactions, TRANSACTIONS),
        (trouble, TROUBLE),
        (logins, LOGINS),
        (latencies, LATENCIES),
    ],
)
def test_what_each_event_counts_in(record: Record, expected: dict[str, float]) -> None:
    counted = metrics()
    untouched = read(counted, 10)["producer-metrics"]
    record(counted)
    values = read(counted, 10)["producer-metrics"]
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=0.01)
    others = values.keys() - expected.keys()
    assert {n: values[n] for n in others} == pytest.approx(
        {n: untouched[n] for n in others}, nan_ok=True
    )


def test_all_computed_metrics_are_covered_by_the_table_above() -> None:
    tables = (BATCHES, REQUESTS, WAITS, TRANSACTIONS, TROUBLE, LOGINS, LATENCIES, BROKER_TIMES)
    covered = {name for table in tables for name in table}
    assert read(metrics())["producer-metrics"].keys() == covered | ZERO_GAUGES.keys()


def test_topics_have_their_own_values() -> None:
    counted = metrics()
    two_batches(counted)
    trouble(counted)
    topics = read(counted, 10)["producer-topic-metrics"]
    assert topics == {
        "a": pytest.approx(
            {
                "record-send-rate": 10 / 40,
                "record-send-total": 10,
                "record-retry-rate": 4 / 40,
                "record-retry-total": 4,
                "record-error-rate": 0,
                "record-error-total": 0,
                "byte-rate": 10,
                "byte-total": 400,
                "compression-rate": 0.4,
            }
        ),
        "b": pytest.approx(
            {
                "record-send-rate": 20 / 40,
                "record-send-total": 20,
                "record-retry-rate": 0,
                "record-retry-total": 0,
                "record-error-rate": 6 / 40,
                "record-error-total": 6,
                "byte-rate": 40,
                "byte-total": 1600,
                "compression-rate": 0.8,
            }
        ),
    }


def test_nodes_have_their_own_values() -> None:
    counted = metrics()
    two_requests(counted)
    trouble(counted)
    nodes = read(counted, 10)["producer-node-metrics"]
    assert set(nodes) == {"node-1", "node--1"}
    assert nodes["node-1"] == pytest.approx(
        {
            "request-rate": 1 / 40,
            "request-total": 1,
            "request-size-avg": 100,
            "request-size-max": 100,
            "outgoing-byte-rate": 100 / 40,
            "outgoing-byte-total": 100,
            "response-rate": 1 / 40,
            "response-total": 1,
            "incoming-byte-rate": 1,
            "incoming-byte-total": 40,
            "request-latency-avg": 25.0,
            "request-latency-max": 25.0,
            "record-retry-rate": 4 / 40,
            "record-retry-total": 4,
            "record-error-rate": 6 / 40,
            "record-error-total": 6,
        }
    )
    assert math.isnan(nodes["node--1"]["request-latency-avg"])


def test_without_values_averages_are_nan_and_rates_and_totals_are_zero() -> None:
    for name, value in read(metrics())["producer-metrics"].items():
        if name.endswith(("-avg", "-max", "-p50", "-p95", "-p99", "-p999")):
            assert math.isnan(value), name
        else:
            assert value == 0.0, name


def test_the_time_of_the_broker_is_the_latency_less_the_round_trip() -> None:
    counted = metrics()
    counted.response_received(1, 40, None, START, 0.030, 0.010)
    counted.response_received(1, 40, None, START, 0.012, 0.002)
    counted.response_received(1, 40, None, START, 0.500)
    values = read(counted)["producer-metrics"]
    assert {name: values[name] for name in BROKER_TIMES} == pytest.approx(BROKER_TIMES, rel=0.01)


def test_latencies_are_kept_since_the_start() -> None:
    counted = metrics()
    latencies(counted)
    two_requests(counted)
    found = counted.latencies(START + 3600)
    assert [each.count for each in found] == [4, 1, 0, 1, 0]
    assert found.record.count_up_to(0.010) == 3
    assert found.record.count_up_to(0.020) == 4


def test_a_latency_of_zero_counts_and_none_does_not() -> None:
    counted = metrics()
    counted.response_received(1, 40, None, START, 0.0)
    counted.response_received(1, 40, None, START, 0.010)
    counted.response_received(1, 40, None, START)
    values = read(counted)["producer-metrics"]
    assert values["request-latency-avg"] == pytest.approx(5.0)


def test_old_values_leave_rates_and_averages_but_not_totals() -> None:
    counted = metrics()
    drain(counted, "a", 10)
    values = read(counted, 3600.0)
    assert values["producer-metrics"]["record-send-rate"] == 0.0
    assert values["producer-metrics"]["record-send-total"] == 10.0
    assert math.isnan(values["producer-metrics"]["batch-size-max"])
    assert values["producer-topic-metrics"]["a"]["record-send-total"] == 10.0
    assert math.isnan(values["producer-topic-metrics"]["a"]["compression-rate"])


def test_forgotten_topics_and_nodes_stay_in_the_sums() -> None:
    counted = metrics()
    drain(counted, "a", 10)
    counted.request_sent(1, 100, START)
    drain(counted, "a", 20, age=1000.0)
    counted.request_sent(1, 200, START + 1000.0)
    before = read(counted, 1000.0)
    counted.forget_topic("a")
    counted.forget_node(1)
    after = read(counted, 1000.0)
    assert after["producer-topic-metrics"] == {}
    assert after["producer-node-metrics"] == {}
    assert after["producer-metrics"] == pytest.approx(before["producer-metrics"], nan_ok=True)
    assert after["producer-metrics"]["record-send-total"] == 30.0

    drain(counted, "a", 5, age=1000.0)
    again = read(counted, 1000.0)
    assert again["producer-topic-metrics"]["a"]["record-send-total"] == 5.0
    assert again["producer-metrics"]["record-send-total"] == 35.0


def test_gauges_are_passed_through() -> None:
    gauges = {gauge.name: float(i) for i, gauge in enumerate(GAUGES)}
    values = metrics().snapshot(START, gauges=gauges)["producer-metrics"]
    assert {name: values[name] for name in gauges} == gauges


@pytest.mark.parametrize(
    ("gauges", "named"),
    [
        ({name: v for name, v in ZERO_GAUGES.items() if name != "metadata-age"}, "metadata-age"),
        (ZERO_GAUGES | {"record-send-rate": 1.0}, "record-send-rate"),
    ],
)
def test_gauges_must_be_those_of_the_table(gauges: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        metrics().snapshot(START, gauges=gauges)


@dataclass(frozen=True)
class Drain:
    wait: int
    topic: str
    records: int


@given(
    st.lists(
        st.builds(
            Drain,
            wait=st.integers(0, 50),
            topic=st.sampled_from("abc"),
            records=st.integers(1, 1000),
        )
    )
)
def test_topics_add_up_to_the_producer(drains: list[Drain]) -> None:
    counted = metrics()
    age = 0
    for event in drains:
        age += event.wait
        drain(counted, event.topic, event.records, age)
        if event.records % 5 == 0:
            read(counted, age)
    values = read(counted, age)
    topics = values["producer-topic-metrics"].values()
    for name in ("record-send-rate", "record-send-total"):
        assert sum(topic[name] for topic in topics) == pytest.approx(
            values["producer-metrics"][name]
        )
    oldest = (age // 30 - 2) * 30
    ages = [sum(d.wait for d in drains[: i + 1]) for i in range(len(drains))]
    recent = sum(d.records for at, d in zip(ages, drains, strict=True) if at >= oldest)
    elapsed = max(age - max(oldest, 0), 30 + age % 30)
    assert values["producer-metrics"]["record-send-rate"] == pytest.approx(recent / elapsed)
