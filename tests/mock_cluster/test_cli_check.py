"""`aioproducer check` as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from aioproducer.testing.mock_cluster import MockCluster

INIT_PRODUCER_ID, FIND_COORDINATOR = 22, 10


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aioproducer", "check", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_there_is_printed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    mock_cluster.create_topic("audit")
    done = check("orders", "audit", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert told[0].startswith("cluster      ")
    brokers = [line.split()[-1] for line in told if line.startswith("broker ")]
    assert set(brokers) == set(mock_cluster.bootstrap_servers.split(","))
    topics = [line for line in told if line.startswith("topic ")]
    assert [line.partition(";")[0] for line in topics] == [
        "topic        orders: 3 partitions",
        "topic        audit: 1 partition",
    ]


def test_the_findings_as_json(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    servers = mock_cluster.bootstrap_servers
    done = check("orders", "-b", servers, "--transactional-id", "billing", "--json")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    found = json.loads(done.stdout)
    assert list(found) == ["cluster_id", "brokers", "features", "topics", "coordinator", "compiled"]
    assert found["topics"]["orders"]["partitions"] == 3
    addresses = {f"{broker['host']}:{broker['port']}" for broker in found["brokers"]}
    assert addresses == set(servers.split(","))
    assert found["coordinator"] in found["brokers"]


def test_a_transactional_id_is_looked_for_and_not_taken(
    mock_cluster: MockCluster, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("transactional.id=billing\n")
    mock_cluster.start_request_tracking()
    for options in (["--transactional-id", "billing"], ["--command-config", str(path)]):
        done = check("-b", mock_cluster.bootstrap_servers, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\ncoordinator  " in done.stdout
    asked = [request.api_key for request in mock_cluster.requests()]
    assert FIND_COORDINATOR in asked
    assert INIT_PRODUCER_ID not in asked


def test_what_is_wrong_is_one_line_as_a_producer_has_it() -> None:
    done = check("orders", "-b", "127.0.0.1:1", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aioproducer: check() did not reach the cluster within 0.5 s. ")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1
