"""One Kafka of three brokers for the session; tests that disturb brokers start their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from aioproducer import Producer
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.reader.requests import FetchRequest
from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaUnavailableError
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.protocol import tables
from tests.support.fetching import Round
from tests.support.group_topic import PARTITIONS, Topic

JAVA = Path(__file__).parent / "java"
KEPT_LOGS = pytest.StashKey[list[str]]()
KEPT_IN_A_WORKER = "kept_logs"
PATIENT = {"broker.session.timeout.ms": 18_000}
"""A broker that stands still with its machine for some seconds is not taken for dead."""
IDLE = {"num.network.threads": 1, "num.io.threads": 2}
"""Each thread of a broker that waits for the next test wakes up three times a second."""
LEAST_SESSION_MS = 500
QUICK_GROUPS = {
    "group.min.session.timeout.ms": LEAST_SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": LEAST_SESSION_MS,
}
"""Tests need not wait for the ends of long sessions; members of KIP-848 have the brokers' times."""
RACKS = {1: "north", 2: "south", 3: "north"}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="session")
def kafka_distribution() -> KafkaDistribution:
    """Kafka's jars. Without them tests are skipped; with AIOPRODUCER_REQUIRE_KAFKA=1 they fail."""
    try:
        return KafkaDistribution.resolve()
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error)


def say_that_there_is_no_kafka(error: KafkaUnavailableError, version: str = "") -> NoReturn:
    """Skip the test, or fail it where Kafka is required."""
    kafka = f"KAFKA {version}".rstrip()
    if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
        pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but no {kafka}: {error}", pytrace=False)
    pytest.skip(f"NO {kafka} HERE, NOTHING IS PROVED: {error}")


@pytest.fixture(scope="session")
def newest() -> KafkaDistribution:
    """The jars of the newest Kafka, whose brokers need not run here."""
    try:
        return KafkaDistribution.resolve(tables.RELEASE)
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error, tables.RELEASE.version)


def said(distribution: KafkaDistribution, program: str, given: str = "") -> list[str]:
    """The lines that a program in the folder ``java`` prints."""
    command = [
        distribution.java.executable,
        "-XX:TieredStopAtLevel=1",
        "-cp",
        distribution.classpath,
        str(JAVA / f"{program}.java"),
    ]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.fixture(scope="session")
def kafka(
    request: pytest.FixtureRequest, kafka_distribution: KafkaDistribution
) -> Iterator[KafkaCluster]:
    """Three brokers, shared: make topics of your own, leave the brokers alone."""
    failed_before = request.session.testsfailed
    with KafkaCluster(
        brokers=3,
        config=PATIENT | IDLE | QUICK_GROUPS,
        broker_config={
            broker: {"broker.rack": rack, "replica.selector.class": RACK_AWARE}
            for broker, rack in RACKS.items()
        },
    ) as cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            keep_logs(request.config, cluster)


def keep_logs(config: pytest.Config, cluster: KafkaCluster) -> None:
    """Tests have failed: the summary names the folder, also that of another process."""
    cluster.keep_logs = True
    kept = config.stash.setdefault(KEPT_LOGS, [])
    kept.append(str(cluster.directory))
    if (output := getattr(config, "workeroutput", None)) is not None:
        output[KEPT_IN_A_WORKER] = kept


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended."""
    kept = getattr(node, "workeroutput", {}).get(KEPT_IN_A_WORKER, [])
    node.config.stash.setdefault(KEPT_LOGS, []).extend(kept)


@pytest.fixture(scope="session", params=[1, 2], ids=["protocol-1", "protocol-2"])
def protocol(request: pytest.FixtureRequest) -> int:
    """Of transactions: before KIP-890, and that of KIP-890."""
    version: int = request.param
    return version


def transactional_cluster(protocol: int) -> KafkaCluster:
    """Three brokers with one version of the protocol of transactions."""
    return KafkaCluster(
        brokers=3,
        config=PATIENT
        | IDLE
        | QUICK_GROUPS
        | {
            "num.partitions": 3,
            "default.replication.factor": 3,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        },
        format_options=("--feature", f"transaction.version={protocol}"),
    )


@pytest.fixture(scope="session")
def transactional(
    request: pytest.FixtureRequest, protocol: int, kafka_distribution: KafkaDistribution
) -> Iterator[KafkaCluster]:
    """A :func:`transactional_cluster`; the tests of one protocol run before the other's.

    Shared like `kafka`.
    """
    failed_before = request.session.testsfailed
    with transactional_cluster(protocol) as cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            keep_logs(request.config, cluster)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for directory in config.stash.get(KEPT_LOGS, []):
        terminalreporter.write_line(f"Tests failed; the logs of the Kafka brokers: {directory}")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[Round]:
    """The fetches of readers that have ended."""
    found: list[Round] = []
    original = ClusterClient.request

    async def request(self: ClusterClient, asked: Any, node: Any = None, *more: Any) -> Any:
        result = await original(self, asked, node, *more)
        if isinstance(asked, FetchRequest):
            found.append(Round(node, asked, result))
        return result

    monkeypatch.setattr(ClusterClient, "request", request)
    return found


@pytest.fixture
async def topic(kafka: KafkaCluster) -> AsyncIterator[Topic]:
    """A topic of six partitions, and a group of its own."""
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        topic = Topic(kafka, producer)
        await kafka.create_topic(topic.name, PARTITIONS)
        yield topic
