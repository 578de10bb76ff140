"""Prometheus scrapes a process with two producers, and uvicorn with two workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aioproducer import Producer, ProducerError, sync
from aioproducer.cli.dashboard import dashboard
from aioproducer.observability.prometheus import ProducerCollector
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor
from tests.documentation.pages import DOCS, blocks
from tests.support.prometheus_server import PrometheusServer, check_metrics, program

pytestmark = pytest.mark.slow


PRODUCE: Final = 0
NOT_ENOUGH_REPLICAS: Final = 19
TOPIC_AUTHORIZATION_FAILED: Final = 29
LATENCY_MS: Final = 40
WIDTH: Final = 0.025
"""Seconds of a bucket near that latency."""
DASHBOARD_SCRAPES: Final = 4


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3, topics={"orders": 3, "views": 3, "audit": 1}) as started:
        yield started


@pytest.fixture
def prometheus(metrics_address: str) -> Iterator[PrometheusServer]:
    with PrometheusServer([metrics_address]) as started:
        yield started


@pytest.fixture
async def web(
    cluster: MockCluster, registry: CollectorRegistry
) -> AsyncIterator[tuple[Producer, sync.Producer]]:
    """A producer of asyncio and a blocking one, in one collector."""
    collector = ProducerCollector(registry=registry)
    servers = cluster.bootstrap_servers
    first = Producer(bootstrap_servers=servers, client_id="web", retry_backoff_ms=10)
    second = sync.Producer(bootstrap_servers=servers, client_id="jobs")
    async with first:
        await asyncio.to_thread(second.start)
        collector.add(first)
        collector.add(second)
        yield first, second
        await asyncio.to_thread(second.close)


async def test_counts_and_latencies(
    cluster: MockCluster,
    web: tuple[Producer, sync.Producer],
    prometheus: PrometheusServer,
) -> None:
    first, second = web
    await asyncio.to_thread(prometheus.scrapes_of_all_targets, 1)
    cluster.set_broker_rtt(ALL_BROKERS, LATENCY_MS)
    took = []
    for _ in range(15):
        began = time.monotonic()
        await first.send("orders", b"x" * 100)
        took.append(time.monotonic() - began)
    await asyncio.to_thread(prometheus.scrapes_of_all_targets, 1)
    values = prometheus.values
    buckets = 'aioproducer_record_latency_seconds_bucket{client_id="web"}'
    assert min(float(bound) for bound in values(f"{buckets} > 0", "le")) >= LATENCY_MS / 1000
    median = values(f"histogram_quantile(0.5, {buckets})", "client_id")
    assert median == {"web": pytest.approx(statistics.median(took), abs=WIDTH)}

    await first.send_many("views", [b"y" * 10] * 1_000)
    report = await asyncio.to_thread(second.send_many, "audit", [b"z"] * 500)
    assert report.delivered == 500
    await asyncio.to_thread(prometheus.scrapes_of_all_targets, 2)

    assert values("kafka_producer_record_send_total", "client_id") == {"web": 1_015, "jobs": 500}
    by_topic = {"orders": 15, "views": 1_000, "audit": 500}
    assert values("kafka_producer_topic_record_send_total", "topic") == by_topic
    assert values("sum(kafka_producer_topic_record_send_total)") == {"": 1_515}
    delivered = "aioproducer_record_latency_seconds_count"
    assert values(delivered, "client_id") == {"web": 1_015, "jobs": 500}
    assert values("aioproducer_can_write", "client_id") == {"web": 1, "jobs": 1}
    connected = values('aioproducer_broker_connected{client_id="web"} == 1', "node")
    assert {"1", "2", "3"} >= connected.keys() > set()


async def test_errors_and_retries_by_topic_and_broker(
    cluster: MockCluster,
    web: tuple[Producer, sync.Producer],
    prometheus: PrometheusServer,
) -> None:
    first, _ = web
    await first.send("audit", b"x")
    cluster.push_request_errors(PRODUCE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS)
    await first.send("audit", b"x")
    cluster.push_request_errors(PRODUCE, TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ProducerError):
        await first.send("audit", b"x")
    await asyncio.to_thread(prometheus.scrapes_of_all_targets, 2)
    metrics = first.metrics()
    values = prometheus.values
    audit = metrics["producer-topic-metrics"]["audit"]
    assert audit["record-error-total"] == 1
    assert audit["record-retry-total"] >= 2
    assert values("kafka_producer_topic_record_error_total", "topic") == {"audit": 1}
    retries = values('kafka_producer_topic_record_retry_total{topic="audit"}')
    assert retries == {"": audit["record-retry-total"]}
    by_node = values("kafka_producer_node_record_retry_total > 0", "node")
    assert sum(by_node.values()) == audit["record-retry-total"]


async def test_what_a_process_exposes_passes_promtool(
    web: tuple[Producer, sync.Producer], metrics_address: str
) -> None:
    first, _ = web
    await first.send("orders", b"x")
    exposed = await asyncio.to_thread(httpx.get, f"http://{metrics_address}/metrics")
    await asyncio.to_thread(check_metrics, exposed.content)


async def test_rates_and_percentiles_pass_promtool(web: tuple[Producer, sync.Producer]) -> None:
    first, _ = web
    await first.send("orders", b"x")
    registry = CollectorRegistry()
    collector = ProducerCollector(registry=registry, rates=True)
    collector.add(first)
    exposed = generate_latest(registry)
    assert b"kafka_producer_record_send_rate{" in exposed
    await asyncio.to_thread(check_metrics, exposed)


def test_the_alerts_of_the_documentation_are_rules(tmp_path: Path) -> None:
    [block] = blocks(DOCS / "how-to" / "metrics.md", "yaml")
    rules = tmp_path / "rules.yml"
    rules.write_text(block.text)
    done = subprocess.run(
        [program("promtool"), "check", "rules", rules],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "5 rules found" in done.stdout


async def test_the_queries_of_the_documentation_have_data(
    web: tuple[Producer, sync.Producer], prometheus: PrometheusServer
) -> None:
    first, _ = web
    [block] = blocks(DOCS / "how-to" / "metrics.md", "promql")
    for _ in range(DASHBOARD_SCRAPES):
        await first.send("orders", b"x")
        await asyncio.to_thread(prometheus.scrapes_of_all_targets, 1)
    promql = ""
    for line in block.text.splitlines():
        promql += line
        if promql.count("(") == promql.count(")"):  # else the query goes on
            assert prometheus.query(promql), promql
            promql = ""
    assert not promql


# --- the dashboard ----------------------------------------------------------------------------


def shipped(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert dashboard() == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def queries(found: dict[str, Any]) -> dict[str, str]:
    """The PromQL of each panel, as Grafana would ask it for all producers."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$__rate_interval", "1m")
        .replace("$__range", "1m")
        .replace("$instance", ".*")
        .replace("$client_id", ".*")
        for panel in found["panels"]
        for target in panel.get("targets", ())
    }


async def test_each_query_of_the_dashboard_has_data(
    cluster: MockCluster,
    web: tuple[Producer, sync.Producer],
    prometheus: PrometheusServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = web
    asked = queries(shipped(capsys))
    for _ in range(DASHBOARD_SCRAPES):
        await first.send_many("orders", [b"x" * 100] * 100)
        await asyncio.to_thread(second.send_many, "views", [b"x" * 100] * 100)
        await asyncio.to_thread(prometheus.scrapes_of_all_targets, 1)
    silent = [name for name, promql in asked.items() if not prometheus.query(promql)]
    assert silent == []
    assert not [name for name, promql in asked.items() if "$" in promql]
    assert "NaN" not in {
        each["value"][1]
        for name, promql in asked.items()
        if not name.startswith("Where the time goes")  # a broker's time is known on Linux alone
        for each in prometheus.query(promql)
    }


def test_the_panels_are_of_grafanas_own_kinds_and_do_not_overlap(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = shipped(capsys)
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        assert panel["type"] in {"row", "stat", "state-timeline", "timeseries"}
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    assert {each["name"] for each in found["templating"]["list"]} == {
        "datasource",
        "instance",
        "client_id",
    }


PATIENCE = 60.0
APP = "tests.mock_cluster.web_workers:app"
SENT = "kafka_producer_record_send_total"
ROOT = Path(__file__).parents[2]


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
