"""`aioproducer topics` and `aioproducer cluster` where nothing is changed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aioproducer.testing.mock_cluster import MockCluster


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aioproducer", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_names_and_partitions(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 2)
    mock_cluster.create_topic("audit")
    servers = ("-b", mock_cluster.bootstrap_servers)
    assert run("topics", "list", *servers).stdout == "audit\norders\n"
    done = run("topics", "describe", "orders", "--json", *servers)
    assert done.returncode == 0
    assert done.stderr.startswith("aioproducer: the settings of topics are not shown: ")
    (topic,) = json.loads(done.stdout)["topics"]
    assert (topic["name"], topic["configs"], len(topic["partitions"])) == ("orders", None, 2)


def test_the_cluster(mock_cluster: MockCluster) -> None:
    done = run("cluster", "--json", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stderr) == (0, "")
    brokers = json.loads(done.stdout)["brokers"]
    addresses = {f"{each['host']}:{each['port']}" for each in brokers}
    assert addresses == set(mock_cluster.bootstrap_servers.split(","))


def test_a_cluster_that_can_t_create_topics_says_so_at_once(mock_cluster: MockCluster) -> None:
    done = run("topics", "create", "orders", "-b", mock_cluster.bootstrap_servers)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aioproducer: broker ")
    assert done.stderr.endswith(
        ": the broker does not support CREATE_TOPICS requests: it is too old for them, or it is of "
        "a mock cluster, which only stores and returns records\n"
    )


@pytest.mark.parametrize("command", [["topics", "list"], ["cluster"]], ids=" ".join)
def test_no_brokers_are_one_line(command: list[str]) -> None:
    done = run(*command, "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "127.0.0.1:1" in done.stderr
