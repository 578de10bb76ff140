"""uvicorn with two workers: whichever is scraped answers for both."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.prometheus_server import PrometheusServer

PATIENCE = 60.0
APP = "tests.mock_cluster.web_workers:app"
SENT = "kafka_producer_record_send_total"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture
def url(mock_cluster: MockCluster) -> Iterator[str]:
    mock_cluster.create_topic("orders", 3)
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder, ProcessSupervisor() as supervisor:
        supervisor.start(
            [
                *(sys.executable, "-m", "uvicorn", APP, "--workers", "2"),
                *("--port", str(port), "--log-level", "warning"),
            ],
            env={
                **os.environ,
                "BROKERS": mock_cluster.bootstrap_servers,
                "PROMETHEUS_MULTIPROC_DIR": folder,
            },
            cwd=ROOT,
        )
        yield f"http://127.0.0.1:{port}"


def orders_in_both(url: str) -> Counter[str]:
    """The orders that each worker took, by its process id: three or more each."""
    taken: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE
    while len(taken) < 2 or min(taken.values()) < 3:
        assert time.monotonic() < deadline, taken
        try:
            answer = httpx.post(f"{url}/orders", content=b"one espresso", timeout=PATIENCE)
        except httpx.TransportError:
            time.sleep(0.1)  # it starts
            continue
        taken[answer.text] += 1
    return taken


def scraped(url: str) -> dict[str, dict[str, float]]:
    """The values of a name by process id."""
    found: dict[str, dict[str, float]] = {}
    text = httpx.get(f"{url}/metrics", timeout=PATIENCE).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("pid", "")] = sample.value
    return found


def test_each_worker_answers_for_both(url: str) -> None:
    taken = orders_in_both(url)
    for _ in range(10):
        found = scraped(url)
        assert found[SENT] == taken
        assert found["orders_taken_total"] == {"": taken.total()}
        assert found["aioproducer_workers_silent"] == {"": 0}
    with PrometheusServer([url.removeprefix("http://")]) as prometheus:
        prometheus.scrapes_of_all_targets(2)
        assert prometheus.values(f"sum({SENT})") == {"": taken.total()}
        assert prometheus.values(SENT, "pid") == taken
        every = "sum by (le) (aioproducer_record_latency_seconds_bucket)"
        assert 0 < prometheus.values(f"histogram_quantile(0.99, {every})")[""] < PATIENCE


def test_a_worker_that_was_killed_leaves(url: str) -> None:
    taken = orders_in_both(url)
    killed, stays = taken
    os.kill(int(killed), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while killed in (found := scraped_if_it_answers(url)) or stays not in found:
        assert time.monotonic() < deadline, found
    assert found[stays] == taken[stays]


def scraped_if_it_answers(url: str) -> dict[str, float]:
    try:
        return scraped(url)[SENT]
    except httpx.TransportError:
        return {}  # the killed worker had the connection
