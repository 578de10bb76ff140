"""The collector in a registry of prometheus_client."""

from __future__ import annotations

import gc
import os
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from aioproducer.observability.prometheus import ProducerCollector
from tests.unit.observability.observed import ObservedProducer, broker

SENT = "kafka_producer_record_send_total"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def collector(registry: CollectorRegistry) -> ProducerCollector:
    return ProducerCollector(registry=registry)


def sent(registry: CollectorRegistry) -> dict[str, float]:
    """Records sent, by client_id."""
    return {
        sample.labels["client_id"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == SENT
    }


def test_several_producers(registry: CollectorRegistry, collector: ProducerCollector) -> None:
    producers = [ObservedProducer("web"), ObservedProducer("audit")]
    for number, producer in enumerate(producers, 1):
        producer.sent("orders", number)
        collector.add(producer)
        collector.add(producer)
    assert sent(registry) == {"web": 1, "audit": 2}
    collector.remove(producers[0])
    assert sent(registry) == {"audit": 2}


def test_producers_of_one_client_id_are_told_apart(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    first, second, third = (ObservedProducer("web") for _ in range(3))
    for producer in (first, second):
        collector.add(producer)
    second.sent("orders", 7)
    assert sent(registry) == {"web": 0, "web-2": 7}
    first.state = "closed"
    collector.add(third)
    assert sent(registry) == {"web": 0, "web-2": 7}


@pytest.mark.parametrize("state", ["closed", "forked"])
def test_a_producer_that_is_gone_leaves(
    registry: CollectorRegistry, collector: ProducerCollector, state: str
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    for stays in ("closing", "broken", "fatal"):
        producer.state = stays
        assert sent(registry) == {"web": 0}
    producer.state = state
    assert sent(registry) == {}


def test_the_collector_holds_no_producer(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    assert sent(registry) == {"web": 0}
    del producer
    gc.collect()
    assert sent(registry) == {}


def test_a_producer_that_is_not_started_has_no_series(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer(started=False)
    collector.add(producer)
    assert sent(registry) == {}


def test_two_collectors_in_a_registry_are_refused(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        ProducerCollector(registry=registry)


def test_both_formats_read_back(registry: CollectorRegistry, collector: ProducerCollector) -> None:
    producer = ObservedProducer('we"b\\\nü\udce9')
    producer.sent("orders", 3)
    producer.counts.request_sent(1, 100, 1.0)
    producer.health_fields = {"can_write": True, "brokers": (broker(1),)}
    collector.add(producer)
    names = {family.name for family in registry.collect()}
    for read in (
        list(text_format(generate_latest(registry).decode())),
        list(openmetrics(generate_openmetrics(registry).decode())),  # type: ignore[no-untyped-call]
    ):
        found = [sample for family in read for sample in family.samples if sample.name == SENT]
        assert [(each.labels["client_id"], each.value) for each in found] == [
            ('we"b\\\nü\\udce9', 3.0)
        ]
        assert {family.name for family in read} == names
        assert {family.type for family in read} == {"counter", "gauge", "histogram"}


def test_scrapes_of_many_threads_while_producers_come_and_go(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []
    producers = [ObservedProducer("web") for _ in range(3)]

    def scrape() -> None:
        try:
            while not stop.is_set():
                assert set(sent(registry)) <= {"web", "web-2", "web-3", "web-4"}
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=scrape) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        for number in range(60):
            for producer in producers:
                producer.sent(f"topic-{number}", 1)
                collector.add(producer)
            collector.remove(producers[number % 3])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failures == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_scrapes_although_a_thread_held_the_lock(
    registry: CollectorRegistry, collector: ProducerCollector
) -> None:
    producer = ObservedProducer()
    collector.add(producer)
    with collector._watched._reading:
        child = os.fork()
        if not child:
            done = threading.Thread(target=lambda: sent(registry), daemon=True)
            done.start()
            done.join(30)
            os._exit(1 if done.is_alive() else 0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
