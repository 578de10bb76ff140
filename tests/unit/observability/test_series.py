"""A producer's metrics, latencies and health as series."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.errors import ConfigError
from aioproducer.observability.series import (
    NODE_SERIES,
    PRODUCER_SERIES,
    TOPIC_SERIES,
    Families,
    KafkaSeries,
    KeyBound,
    ProducerSeries,
    Sample,
    SeriesOptions,
    all_families,
)
from tests.unit.observability.observed import ObservedProducer, broker, histogram

LEGAL = re.compile(r"[a-z][a-z0-9_]*\Z")


def read(
    producer: ObservedProducer, series: ProducerSeries | None = None
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = Families()
    series = series or ProducerSeries(producer.client_id, SeriesOptions())
    series.add_to(families, producer.metrics(), producer.latencies(), producer.health())
    samples: list[Sample] = [sample for family in families for sample in family.samples]
    found = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
    assert len(found) == len(samples), "a series is there twice"
    return found


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


# --- names ------------------------------------------------------------------------------------


def by_kafka_name(series: tuple[KafkaSeries, ...]) -> dict[str, KafkaSeries]:
    return {each.kafka_name: each for each in series}


@pytest.mark.parametrize(
    ("kafka_name", "name", "kind", "scale", "is_derived"),
    [
        ("record-send-total", "kafka_producer_record_send_total", "counter", 1.0, False),
        ("record-send-rate", "kafka_producer_record_send_rate", "gauge", 1.0, True),
        ("record-latency-p99", "kafka_producer_record_latency_p99", "gauge", 1.0, True),
        ("request-latency-avg", "kafka_producer_request_latency_avg", "gauge", 1.0, False),
        ("buffer-total-bytes", "kafka_producer_buffer_total_bytes", "gauge", 1.0, False),
        ("connection-count", "kafka_producer_connections", "gauge", 1.0, False),
        ("compression-rate-avg", "kafka_producer_compression_rate_avg", "gauge", 1.0, False),
        ("flush-time-ns-total", "kafka_producer_flush_time_seconds_total", "counter", 1e-9, False),
    ],
)
def test_kafkas_names(
    kafka_name: str, name: str, kind: str, scale: float, is_derived: bool
) -> None:
    found = by_kafka_name(PRODUCER_SERIES)[kafka_name]
    assert (found.exposed_name, found.kind, found.scale, found.is_derived) == (
        name,
        kind,
        scale,
        is_derived,
    )


def test_a_topics_compression_rate_is_no_rate() -> None:
    assert not by_kafka_name(TOPIC_SERIES)["compression-rate"].is_derived


def test_all_names_are_legal_and_different() -> None:
    everything = [*PRODUCER_SERIES, *TOPIC_SERIES, *NODE_SERIES]
    names = [each.exposed_name for each in everything]
    assert len(set(names)) == len(names)
    families = list(all_families())
    assert len({each.name for each in families}) == len(families) > len(names)
    for family in families:
        assert LEGAL.match(family.name), family.name
        assert family.meaning
        assert family.kind == "histogram" or not family.name.endswith(("_count", "_sum", "_bucket"))


def test_there_is_no_series_without_its_family() -> None:
    producer = ObservedProducer()
    producer.sent("orders", 10)
    producer.counts.request_sent(1, 100, 1.0)
    producer.health_fields = {"can_write": True, "brokers": (broker(1),)}
    known = {each.name for each in all_families()}
    options = SeriesOptions(rates=True)
    names = {
        re.sub("_(total|bucket|count|sum)$", "", name)
        for name, _ in read(producer, ProducerSeries("web", options))
    }
    with_suffix = {name for name in known if re.search("_(total|count|sum)$", name)}
    assert with_suffix == set()
    assert names <= known


# --- values -----------------------------------------------------------------------------------


def test_counts_are_by_producer_topic_and_node() -> None:
    producer = ObservedProducer()
    producer.sent("orders", 10)
    producer.sent("views", 5, 300)
    producer.counts.records_failed("views", 2, 1.0)
    producer.counts.request_sent(-1, 100, 1.0)
    found = read(producer)
    assert found[of("kafka_producer_record_send_total", client_id="web")] == 15
    name = "kafka_producer_topic_record_send_total"
    assert found[of(name, client_id="web", topic="views")] == 5
    assert found[of("kafka_producer_topic_byte_total", client_id="web", topic="views")] == 300
    name = "kafka_producer_topic_record_error_total"
    assert found[of(name, client_id="web", topic="views")] == 2
    assert found[of("kafka_producer_node_request_total", client_id="web", node="-1")] == 1


def test_nan_is_left_out_and_rates_by_default() -> None:
    producer = ObservedProducer()
    found = read(producer)
    assert not any(math.isnan(value) for value in found.values())
    assert of("kafka_producer_batch_size_avg", client_id="web") not in found
    assert of("kafka_producer_record_send_rate", client_id="web") not in found
    assert of("kafka_producer_record_send_total", client_id="web") in found
    with_rates = read(producer, ProducerSeries("web", SeriesOptions(rates=True)))
    assert of("kafka_producer_record_send_rate", client_id="web") in with_rates


def test_a_histogram_is_cumulative_and_its_bounds_are_included() -> None:
    producer = ObservedProducer()
    producer.record = histogram(0.001, 0.004, 0.004, 7.0)
    series = ProducerSeries("web", SeriesOptions(buckets=(0.001, 0.005, 1.0)))
    found = read(producer, series)
    name = "aioproducer_record_latency_seconds"
    counts = {
        le: found[of(f"{name}_bucket", client_id="web", le=le)]
        for le in ("0.001", "0.005", "1.0", "+Inf")
    }
    assert counts == {"0.001": 1, "0.005": 3, "1.0": 3, "+Inf": 4}
    assert found[of(f"{name}_count", client_id="web")] == 4
    assert found[of(f"{name}_sum", client_id="web")] == pytest.approx(7.009)


def test_health() -> None:
    producer = ObservedProducer()
    producer.health_fields = {
        "can_write": False,
        "since": 12.0,
        "oldest_record_age": 3.5,
        "brokers": (broker(1, in_flight=2), broker(2, "unreachable"), broker(3, "disconnected")),
    }
    found = read(producer)
    assert found[of("aioproducer_can_write", client_id="web")] == 0
    assert found[of("aioproducer_ready", client_id="web")] == 0
    assert found[of("aioproducer_live", client_id="web")] == 1
    assert found[of("aioproducer_outage_seconds", client_id="web")] == 12
    assert found[of("aioproducer_oldest_record_age_seconds", client_id="web")] == 3.5
    for node, connected, failing in (("1", 1, 0), ("2", 0, 1), ("3", 0, 0)):
        assert found[of("aioproducer_broker_connected", client_id="web", node=node)] == connected
        assert found[of("aioproducer_broker_failing", client_id="web", node=node)] == failing
    assert found[of("aioproducer_broker_requests_in_flight", client_id="web", node="1")] == 2
    producer.health_fields = {"can_write": None}
    assert of("aioproducer_can_write", client_id="web") not in read(producer)


def test_a_client_id_that_utf8_cannot_encode() -> None:
    producer = ObservedProducer("caf\udce9")
    found = read(producer)
    assert of("kafka_producer_record_send_total", client_id="caf\\udce9") in found


# --- bounds -----------------------------------------------------------------------------------


def test_topics_are_bounded_and_those_shown_stay() -> None:
    producer = ObservedProducer()
    series = ProducerSeries("web", SeriesOptions(max_topics=2))
    name, left_out = "kafka_producer_topic_record_send_total", "aioproducer_topics_left_out"

    def shown() -> set[str]:
        found = read(producer, series)
        return {dict(labels)["topic"] for each, labels in found if each == name}

    producer.sent("a", 1)
    producer.sent("b", 1)
    assert shown() == {"a", "b"}
    producer.sent("c", 1000)
    assert shown() == {"a", "b"}
    assert read(producer, series)[of(left_out, client_id="web")] == 1
    assert read(producer, series)[of("kafka_producer_record_send_total", client_id="web")] == 1002
    producer.counts.forget_topic("a")
    assert shown() == {"b", "c"}
    assert read(producer, series)[of(left_out, client_id="web")] == 0


@given(st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=10), st.integers(0, 5))
def test_a_key_that_is_shown_stays_while_it_exists(steps: list[set[str]], most: int) -> None:
    bound = KeyBound(most)
    before: set[str] = set()
    for keys in steps:
        kept, left_out = bound.keep(sorted(keys))
        assert len(kept) == len(set(kept)) == min(most, len(keys))
        assert before & keys <= set(kept) <= keys
        assert left_out == len(keys) - len(kept)
        before = set(kept)


@pytest.mark.parametrize(
    "options",
    [
        {"max_topics": -1},
        {"max_nodes": -1},
        {"buckets": ()},
        {"buckets": (0.0, 1.0)},
        {"buckets": (1.0, math.inf)},
        {"buckets": (1.0, 1.0)},
        {"buckets": (2.0, 1.0)},
    ],
)
def test_wrong_options(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SeriesOptions(**options)  # type: ignore[arg-type]
