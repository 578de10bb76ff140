"""`aioproducer topics` and `aioproducer cluster` against a real cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from aioproducer.cli import app
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

COMMAND = [sys.executable, "-m", "aioproducer"]
PATIENCE = 120.0

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(
    kafka: KafkaCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """The program in this process, with the cluster's addresses."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*arguments, "-b", kafka.bootstrap_servers]
        code = app.run(command)
        return subprocess.CompletedProcess(command, code, *capsys.readouterr())

    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield run


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_life_of_a_topic(run: Run, topic: str) -> None:
    numbers = ("--partitions", "3", "--replication-factor", "2")
    setting = ("--config", "retention.ms=3600000")
    made = run("topics", "create", topic, *numbers, *setting)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == f"{topic} created: 3 partitions, 2 replicas each\n"

    wait_until(lambda: topic in run("topics", "list").stdout.splitlines())
    wait_until(lambda: topic in found(run("topics", "list", "--json"))["topics"])

    described(run, topic)
    told = run("topics", "describe", topic).stdout.splitlines()
    assert told[0] == f"{topic}: 3 partitions, 2 replicas each"
    assert "  retention.ms=3600000" in told
    assert told[-4] == "  partition  leader  replicas  in sync"
    assert [line.split()[0] for line in told[-3:]] == ["0", "1", "2"]

    more = run("topics", "add-partitions", topic, "--partitions", "5")
    assert (more.returncode, more.stdout) == (0, f"{topic} has 5 partitions\n")
    wait_until(lambda: len(described(run, topic)["partitions"]) == 5)

    gone = run("topics", "delete", topic, "--yes")
    assert (gone.returncode, gone.stdout) == (0, f"deleted {topic}\n")
    wait_until(lambda: topic not in run("topics", "list").stdout.splitlines())


def described(run: Run, topic: str) -> dict[str, Any]:
    """Wait until the broker that is asked knows the topic: another one may have created it."""
    answers = []

    def is_known() -> bool:
        answers.append(run("topics", "describe", topic, "--json"))
        return "UNKNOWN_TOPIC_OR_PARTITION" not in answers[-1].stderr

    wait_until(is_known)
    (only,) = found(answers[-1])["topics"]
    assert only["name"] == topic
    result: dict[str, Any] = only
    return result


def test_replicas_by_assignment(run: Run, topic: str) -> None:
    made = run("topics", "create", topic, "--replica-assignment", "1:2,2:3,3:1", "--json")
    result = found(made)
    assert result.pop("id")
    assert result == {"topic": topic, "created": True, "partitions": 3, "replication_factor": 2}
    partitions = described(run, topic)["partitions"]
    assert [each["replicas"] for each in partitions] == [[1, 2], [2, 3], [3, 1]]
    assert partitions[0]["leader"] == 1

    grown = run(
        *("topics", "add-partitions", topic, "--partitions", "4"),
        *("--replica-assignment", "3:2", "--json"),
    )
    assert found(grown) == {"topic": topic, "partitions": 4, "added": True}
    wait_until(lambda: len(described(run, topic)["partitions"]) == 4)
    assert described(run, topic)["partitions"][3]["replicas"] == [3, 2]


def test_validation_changes_nothing(run: Run, topic: str) -> None:
    checked = run("topics", "create", topic, "--partitions", "2", "--validate-only")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith(f"{topic} would be created: 2 partitions")
    assert topic not in run("topics", "list").stdout.splitlines()


def test_a_topic_that_is_there_already(run: Run, topic: str) -> None:
    assert run("topics", "create", topic).returncode == 0
    again = run("topics", "create", topic)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (1, "", 1)
    assert topic in again.stderr
    assert "exists" in again.stderr
    kept = run("topics", "create", topic, "--if-not-exists", "--json")
    assert found(kept)["created"] is False


def test_a_topic_that_is_not_there(run: Run, topic: str) -> None:
    for command in (
        ("describe", topic),
        ("delete", topic, "--yes"),
        ("add-partitions", topic, "--partitions", "2"),
    ):
        done = run("topics", *command)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert topic in done.stderr
    assert found(run("topics", "delete", topic, "--yes", "--if-exists", "--json")) == {
        "deleted": []
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--replication-factor", "9"], "replica"),
        (["--config", "retention.ms=soon"], "retention.ms"),
        (["--replica-assignment", "1:77"], "77"),
    ],
)
def test_the_refusal_of_the_brokers_is_one_line(
    run: Run, topic: str, options: list[str], word: str
) -> None:
    done = run("topics", "create", topic, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert topic in done.stderr
    assert word in done.stderr


def test_all_replicas_are_in_sync(run: Run, topic: str) -> None:
    run("topics", "create", topic, "--replication-factor", "3")
    wait_until(
        lambda: (
            found(run("topics", "describe", topic, "--under-replicated-partitions", "--json"))
            == {"topics": []}
        )
    )


def test_deletion_asks_on_a_terminal(run: Run, kafka: KafkaCluster, topic: str) -> None:
    run("topics", "create", topic)
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        terminal = Terminal()
        command = [*COMMAND, "topics", "delete", topic, "-b", kafka.bootstrap_servers]
        with subprocess.Popen(
            command, stdin=terminal.theirs, stdout=subprocess.PIPE, stderr=terminal.theirs
        ) as process:
            wait_until(lambda seen=terminal: seen.shows(f"Delete {topic} with all records? [y/N]"))  # type: ignore[misc]
            terminal.type(answer)
            out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code
        assert out == (b"" if code else f"deleted {topic}\n".encode())
        terminal.close()


def test_the_cluster(run: Run, kafka: KafkaCluster) -> None:
    result = found(run("cluster", "--json", "--versions"))
    assert list(result) == ["cluster_id", "controller", "brokers", "features"]
    addresses = {f"{each['host']}:{each['port']}" for each in result["brokers"]}
    assert addresses == set(kafka.bootstrap_servers.split(","))
    assert result["features"]["metadata.version"] > 0
    for broker in result["brokers"]:
        assert broker["versions"]["PRODUCE"][1] >= 9

    told = run("cluster").stdout.splitlines()
    assert told[0] == f"cluster      {result['cluster_id']}"
    assert sum(line.startswith("broker ") for line in told) == 3
    assert any(line.startswith("feature      metadata.version ") for line in told)
