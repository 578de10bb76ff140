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


@pytest.mark.parametrize("command", [["topics", "list"], ["cluster"]], ids=" ".join)
def test_no_brokers_are_one_line(command: list[str]) -> None:
    done = run(*command, "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delete", "t"], "give --yes to delete t with all records"),
        (["create", "bad name"], "a topic is a str of 1 to 249 ASCII letters"),
        (["create", "t", "--partitions", "0"], "Invalid value for '--partitions'"),
        (["create", "t", "--replica-assignment", "x"], "write the broker ids of each partition"),
        (["create", "t", "--replica-assignment", "1:1"], "on different brokers, not on [1, 1]"),
        (["create", "t", "--replica-assignment", "1", "--partitions", "2"], "leave out partitions"),
        (["create", "t", "--partitions", "99999999999"], "partitions is an int from 1 to"),
        (["create", "t", "--config", "x"], "write name=value"),
        (["create"], "Missing argument 'TOPIC'"),
        (["add-partitions", "t"], "Missing option '--partitions'"),
        (["list", "-X", "linger.sm=4"], "did you mean 'linger.ms'"),
    ],
)
def test_wrong_use_is_one_clear_line(arguments: list[str], message: str) -> None:
    done = run("topics", *arguments, "-b", "127.0.0.1:1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
