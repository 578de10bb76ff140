"""One tiny round of everything, each client in its process, against the mock cluster."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path

import pytest

from aioproducer.errors import MissingExtraError
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.__main__ import main
from benchmarks.brokers import log_size
from benchmarks.client import run
from benchmarks.clients import CLIENTS, Choice, Client
from benchmarks.metrics import METRICS
from benchmarks.runner import Plan, run_all
from benchmarks.workloads import WORKLOADS

pytestmark = [
    pytest.mark.mock_cluster,
    pytest.mark.filterwarnings(
        "ignore:(read|open)_text is deprecated:DeprecationWarning"
    ),  # kafka-python
]


@pytest.fixture(scope="module", autouse=True)
def _mock_cluster_is_available() -> None:
    try:
        with MockCluster(brokers=1):
            pass
    except MissingExtraError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but {error}")
        pytest.skip(f"NOT TESTED: {error}")


OF_EACH_SHAPE = ("bulk", "keyed", "cold_topics", "stall", "memory", "tasks", "spawn", "send_many")
PAIRS = [
    (client, workload)
    for client in CLIENTS
    for workload in OF_EACH_SHAPE
    if workload in CLIENTS[client].tuned and "mock" in CLIENTS[client].brokers
]
ALWAYS = {
    *("records_per_second", "megabytes_per_second", "cpu_us_per_record", "peak_megabytes"),
}
LATENCIES = {"p50_ms", "p99_ms"}
LATENESS = {"late_p50_ms", "late_p99_ms", "late_p999_ms", "late_max_ms", "longest_send_ms"}
MEMORY = {"before_megabytes", *(f"quarter_{number}_megabytes" for number in (1, 2, 3, 4))}
MEASURED = {
    "tasks": LATENCIES,
    "cold_topics": LATENCIES,
    "spawn": LATENCIES | {"task_us"},
    "stall": LATENESS,
    "memory": MEMORY,
}


@pytest.mark.parametrize(("client", "name"), PAIRS)
def test_every_client_does_every_shape(client: str, name: str) -> None:
    whole = WORKLOADS[name]
    workload = dataclasses.replace(
        whole, records=1_500, tasks=min(whole.tasks, 200), topics=min(whole.topics, 3), rtt_ms=0
    )
    topics = dict.fromkeys(workload.topic_names(), workload.partitions)
    with MockCluster(brokers=3, topics=topics) as cluster:
        costs = asyncio.run(run(CLIENTS[client], workload, 1_500, cluster.bootstrap_servers))
        in_log = log_size(cluster.bootstrap_servers, workload.topic_names(), workload.partitions)
    assert in_log == 1_500 + costs.warm_up
    assert (costs.confirmed, costs.failed, costs.first_error) == (1_500, 0, None)
    assert costs.numbers.keys() == ALWAYS | MEASURED.get(name, set())
    assert costs.numbers.keys() <= METRICS.keys()
    assert all(costs.numbers[number] > 0 for number in ALWAYS)


def test_a_tiny_round_of_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clients = "aioproducer,confluent,kafka-python"
    arguments = ["--workloads", "lz4", "--clients", clients, "--rounds", "1", "--records", "1200"]
    assert main([*arguments, "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "cores" in printed
    assert "VOID" not in printed
    (path,) = tmp_path.glob("*.json")
    runs = json.loads(path.read_text())["runs"]
    assert {run["client"] for run in runs} == set(clients.split(","))
    assert len(runs) == 3
    for each in runs:
        assert each["void"] is None
        assert each["numbers"].keys() == ALWAYS


def test_clients_run_with_each_choice_that_they_have() -> None:
    clients = [CLIENTS["aiokafka"], CLIENTS["confluent-aio"], CLIENTS["java"]]
    plan = Plan([], clients, rounds=1, settings=list(Choice))
    assert [(each.client.name, each.choice) for each in plan.contenders(WORKLOADS["single"])] == [
        *(("aiokafka", "defaults"), ("aiokafka", "tuned"), ("confluent-aio", "tuned")),
    ]


def test_a_client_that_fails_makes_the_run_void() -> None:
    unknown = Client("unknown", "unknown_client", "unknown", {"single": {}}, {})
    plan = Plan([WORKLOADS["single"]], [unknown], rounds=1, records=1)
    (failed,) = run_all(plan, started=lambda what: None)
    assert failed.void is not None
    assert "unknown" in failed.void
