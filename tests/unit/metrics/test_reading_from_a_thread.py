"""A thread reads while the owner counts, opens windows, and forgets topics."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator

import pytest

from aioproducer.engine.metrics import ProducerMetrics

WIDTH = 0.5
READINGS = 100


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def gauges() -> dict[str, float]:
    from aioproducer.engine.metrics.names import GAUGES

    return {gauge.name: 0.0 for gauge in GAUGES}


def test_totals_never_go_back_and_means_are_of_what_was_counted() -> None:
    metrics = ProducerMetrics(num_samples=2, sample_window=WIDTH, now=0.0)
    enough = threading.Event()
    times = itertools.count()
    counted = itertools.count()

    def count() -> None:
        while not enough.is_set():
            number = next(counted)
            now = next(times) * 0.01
            topic = f"topic-{number % 40}"
            metrics.batch_sent(topic, 10, 500, 1000, 100, 0.25, now)
            metrics.request_sent(number % 3, 700, now)
            if number % 7 == 0:
                metrics.forget_topic(f"topic-{(number + 20) % 40}")
                metrics.forget_node(number % 3)

    owner = threading.Thread(target=count)
    owner.start()
    try:
        read_while_counting(metrics, times)
    finally:
        enough.set()
        owner.join()
    batches = next(counted)
    last = metrics.snapshot(next(times) * 0.01, gauges=gauges())["producer-metrics"]
    assert last["record-send-total"] == 10 * batches
    assert last["outgoing-byte-total"] == 700 * batches


def read_while_counting(metrics: ProducerMetrics, times: Iterator[int]) -> None:
    before = {"record-send-total": 0.0, "outgoing-byte-total": 0.0}
    for _ in range(READINGS):
        # The reader's clock is ahead of the owner's, so the owner's windows look old to it.
        read = metrics.snapshot(next(times) * 0.01 + WIDTH, gauges=gauges())["producer-metrics"]
        totals = {name: read[name] for name in before}
        assert all(totals[name] >= before[name] for name in before)
        assert read["record-send-total"] % 10 == 0
        for name, value in (
            ("record-queue-time-avg", 250.0),
            ("batch-size-avg", 500.0),
            ("compression-rate-avg", 0.5),
            ("request-size-max", 700.0),
        ):
            assert read[name] == value or read[name] != read[name], name
        before = totals
