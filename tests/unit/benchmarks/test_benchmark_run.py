"""One tiny round of everything, each client in its process, against the mock cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aioproducer.errors import MissingExtraError
from aioproducer.testing.mock_cluster import MockCluster
from benchmarks.__main__ import main
from benchmarks.clients import CLIENTS, Client
from benchmarks.runner import Plan, run_all
from benchmarks.workloads import WORKLOADS

pytestmark = pytest.mark.mock_cluster


@pytest.fixture(scope="module", autouse=True)
def _mock_cluster_is_available() -> None:
    try:
        with MockCluster(brokers=1):
            pass
    except MissingExtraError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but {error}")
        pytest.skip(f"NOT TESTED: {error}")


def test_a_tiny_round_of_all_clients_and_workloads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--rounds", "1", "--records", "1200", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "cores" in printed
    assert "VOID" not in printed
    (path,) = tmp_path.glob("*.json")
    runs = json.loads(path.read_text())["runs"]
    expected = {
        (workload, client.name) for client in CLIENTS.values() for workload in client.settings
    }
    assert {(run["workload"], run["client"]) for run in runs} == expected
    assert len(runs) == len(expected)
    for run in runs:
        assert run["void"] is None
        assert run["records_per_second"] > 0
        assert run["cpu_us_per_record"] > 0
        assert run["peak_megabytes"] > 0
        assert (run["p99_ms"] is not None) == (run["workload"] in ("tasks", "single"))


def test_a_client_that_fails_makes_the_run_void() -> None:
    unknown = Client("unknown", "unknown_client", "unknown", {"single": {}})
    plan = Plan([WORKLOADS["single"]], [unknown], rounds=1, records=1)
    (run,) = run_all(plan, started=lambda what: None)
    assert run.void is not None
    assert "unknown" in run.void
