"""The Kafka of the tests is a real one, can be disturbed, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from aioproducer.testing.kafka_cluster import (
    KafkaCluster,
    KafkaClusterError,
    KafkaUnavailableError,
    broker_processes,
)
from aioproducer.testing.kafka_distribution import KafkaDistribution, kafka_version
from tests.support.pytest_project import run_pytest
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


CLI = [sys.executable, "-m", "aioproducer.testing.kafka_cluster"]


def produce(bootstrap_servers: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert errors == [None] * len(values)


def consume(bootstrap_servers: str, topic: str, count: int) -> list[bytes | str | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    values: list[bytes | str | None] = []
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.usefixtures("kafka_distribution")
async def test_another_client_reads_what_another_client_wrote(kafka: KafkaCluster) -> None:
    topic = uuid.uuid4().hex
    await kafka.create_topic(topic, partitions=3, replication_factor=3)
    values = [b"%d" % number for number in range(100)]
    await asyncio.to_thread(produce, kafka.bootstrap_servers, topic, values)
    read = await asyncio.to_thread(consume, kafka.bootstrap_servers, topic, 100)
    assert sorted(map(str, read)) == sorted(map(str, values))


@pytest.mark.usefixtures("kafka_distribution")
async def test_kafkas_own_tools_read_and_write(kafka: KafkaCluster) -> None:
    topic = uuid.uuid4().hex
    await kafka.create_topic(topic)
    servers = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic)
    written = await kafka.tool("org.apache.kafka.tools.ConsoleProducer", *servers, input="a\nb\n")
    assert written.returncode == 0, written.stderr
    read = await kafka.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*servers, "--from-beginning", "--max-messages", "2"),
    )
    assert read.stdout == "a\nb\n"
    segments = [
        str(segment)
        for broker in kafka.brokers
        for segment in broker.data_dir.glob(f"{topic}-0/*.log")
    ]
    dump = await kafka.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", ",".join(segments), "--print-data-log"),
    )
    assert "payload: a" in dump.stdout
    assert dump.stderr == ""


@pytest.mark.usefixtures("kafka_distribution")
async def test_a_tool_that_does_not_end_is_killed(kafka: KafkaCluster) -> None:
    topic = uuid.uuid4().hex
    await kafka.create_topic(topic)
    with pytest.raises(KafkaClusterError, match=r"did not end within 0\.5 s"):
        await kafka.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic),
            timeout=0.5,
        )


@pytest.mark.usefixtures("kafka_distribution")
async def test_a_topic_that_exists_is_an_error(kafka: KafkaCluster) -> None:
    topic = uuid.uuid4().hex
    await kafka.create_topic(topic, config={"retention.ms": 1000})
    with pytest.raises(KafkaClusterError, match="TOPIC_ALREADY_EXISTS"):
        await kafka.create_topic(topic)
    with pytest.raises(KafkaClusterError, match="INVALID_CONFIG"):
        await kafka.create_topic(uuid.uuid4().hex, config={"retention.ms": "x"})


@pytest.mark.usefixtures("kafka_distribution")
async def test_brokers_are_stopped_killed_paused_and_come_back() -> None:
    async with KafkaCluster(brokers=3, config={"min.insync.replicas": 2}) as cluster:
        first, second, third = cluster.brokers
        await cluster.create_topic("orders", partitions=3, replication_factor=3)
        await cluster.stop_broker(1)
        assert first.pid is None
        with pytest.raises(KafkaClusterError, match="broker 1 is not running"):
            await cluster.stop_broker(1)
        await asyncio.to_thread(produce, cluster.bootstrap_servers, "orders", [b"x"] * 10)
        await cluster.start_broker(1)
        assert first.pid is not None

        await cluster.kill_broker(2)
        assert not second.is_running
        await cluster.start_broker(2)

        await cluster.pause_broker(3)
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(broker_processes.metadata, third.internal_address, timeout=0.5)
        await cluster.resume_broker(3)
        await asyncio.to_thread(broker_processes.metadata, third.internal_address, timeout=10)
        assert len(await asyncio.to_thread(consume, cluster.bootstrap_servers, "orders", 10)) == 10
        await cluster.pause_broker(3)
    assert not cluster.directory.exists()
    assert not any(broker.is_running for broker in cluster.brokers)


@pytest.mark.usefixtures("kafka_distribution")
def test_configuration_listeners_and_advertised_ports_reach_the_brokers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        with KafkaCluster(
            brokers=2,
            config={"auto.create.topics.enable": False, "num.io.threads": 3},
            broker_config={2: {"num.io.threads": 4, "broker.rack": "räck\\2"}},
            listeners={"DIRECT": "PLAINTEXT"},
            advertised_ports={1: port},
        ) as cluster:
            first, second = cluster.brokers
            assert cluster.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{second.port}"
            told = broker_processes.metadata((first.host, first.port)).brokers
            assert {broker.node_id: broker.port for broker in told} == {1: port, 2: second.port}
            assert {broker.rack for broker in told} == {None, "räck\\2"}
            directly = broker_processes.metadata((first.host, first.ports["DIRECT"])).brokers
            assert {broker.port for broker in directly} == {
                first.ports["DIRECT"],
                second.ports["DIRECT"],
            }
            assert "auto.create.topics.enable = false" in first.log_file.read_text()
            assert "num.io.threads = 3" in first.log_file.read_text()
            assert "num.io.threads = 4" in second.log_file.read_text()
            assert "log.retention.ms = -1" in first.log_file.read_text()
            assert cluster.bootstrap_servers_of("DIRECT").startswith("127.0.0.1:")


@pytest.mark.usefixtures("kafka_distribution")
async def test_data_survives_in_a_directory_of_ones_own(tmp_path: Path) -> None:
    async with KafkaCluster(directory=tmp_path) as cluster:
        await cluster.create_topic("orders")
        await asyncio.to_thread(produce, cluster.bootstrap_servers, "orders", [b"kept"])
    async with KafkaCluster(directory=tmp_path) as cluster:
        read = await asyncio.to_thread(consume, cluster.bootstrap_servers, "orders", 1)
    assert read == [b"kept"]
    assert cluster.brokers[0].log_file.exists()


@pytest.mark.usefixtures("kafka_distribution")
async def test_a_broker_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    cluster = KafkaCluster(brokers=2)
    first, second = cluster.brokers
    with (
        socket.create_server((second.host, second.port)),
        pytest.raises(KafkaClusterError, match=r"broker 2 ended .* exit code 1") as caught,
    ):
        await cluster.start()
    assert "Address already in use" in str(caught.value)
    assert str(second.log_file) in str(caught.value)
    assert second.log_file.is_relative_to(tmp_path)
    assert second.log_file.exists()
    assert not second.data_dir.exists()
    assert not first.is_running


@pytest.mark.usefixtures("kafka_distribution")
async def test_a_configuration_kafka_refuses_is_shown(tmp_path: Path) -> None:
    with pytest.raises(KafkaClusterError, match=r"broker 1(.*\n)*.*num\.io\.threads"):
        await KafkaCluster(config={"num.io.threads": 0}, directory=tmp_path).start()


@pytest.mark.usefixtures("kafka_distribution")
async def test_an_exception_keeps_the_logs_and_says_where() -> None:
    with pytest.raises(ValueError, match="on purpose") as caught:
        async with KafkaCluster() as cluster:
            raise ValueError("on purpose")
    assert str(cluster.directory) in caught.value.__notes__[0]
    assert cluster.brokers[0].log_file.exists()
    assert not cluster.brokers[0].data_dir.exists()
    for kept in (cluster.brokers[0].log_file, cluster.brokers[0].properties_file):
        kept.unlink()
    cluster.directory.rmdir()


@pytest.mark.usefixtures("kafka_distribution")
async def test_a_cancelled_start_leaves_nothing() -> None:
    cluster = KafkaCluster(brokers=3)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cluster.start(), 1.0)
    assert not any(broker.is_running for broker in cluster.brokers)
    assert not cluster.directory.exists()
    with pytest.raises(KafkaClusterError, match="starts once"):
        await cluster.start()


@contextmanager
def command_line(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A cluster of the command line, with its temporary files in ``folder``."""
    with subprocess.Popen(
        [*CLI, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
        text=True,
    ) as command:
        try:
            yield command
        finally:
            command.kill()


def brokers_with_files_in(directory: Path) -> list[int]:
    ps = subprocess.run(["ps", "-wweo", "pid=,args="], stdout=subprocess.PIPE, text=True)
    return [
        int(line.split()[0])
        for line in ps.stdout.splitlines()
        if f"{directory}/aioproducer-kafka-" in line
    ]


@pytest.mark.usefixtures("kafka_distribution")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_command_line_runs_until_it_is_told_to_end(tmp_path: Path, end: signal.Signals) -> None:
    with command_line(tmp_path, "--brokers", "2", "--config", "num.io.threads=3") as command:
        assert command.stdout is not None
        host, _, port = command.stdout.readline().split(",")[0].partition(":")
        assert len(broker_processes.metadata((host, int(port))).brokers) == 2
        assert len(brokers_with_files_in(tmp_path)) == 2
        command.send_signal(end)
        _, complaints = command.communicate(timeout=20)
    assert command.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 0)
    assert complaints == ""
    wait_until(lambda: brokers_with_files_in(tmp_path) == [], timeout=20)
    wait_until(lambda: list(tmp_path.iterdir()) == [], timeout=20)


@pytest.mark.usefixtures("kafka_distribution")
def test_the_command_line_ends_when_its_broker_has_died(tmp_path: Path) -> None:
    with command_line(tmp_path) as command:
        assert command.stdout is not None
        assert command.stdout.readline()
        (broker,) = brokers_with_files_in(tmp_path)
        os.kill(broker, signal.SIGKILL)
        _, complaints = command.communicate(timeout=20)
    assert command.returncode == 1
    assert "broker 1 has ended, with exit code -9" in complaints
    assert "no broker is left" in complaints


@pytest.mark.usefixtures("kafka_distribution")
def test_the_command_line_reports_a_start_that_fails(tmp_path: Path) -> None:
    command = subprocess.run(
        [*CLI, "--config", "num.io.threads=0", "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert command.returncode == 1
    assert "num.io.threads" in command.stderr
    assert str(tmp_path / "broker-1.properties") in command.stderr
    assert command.stdout == ""


@pytest.mark.usefixtures("kafka_distribution")
def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="1 to 3 brokers, not 4"):
        KafkaCluster(brokers=4)
    with pytest.raises(ValueError, match="broker_config names brokers"):
        KafkaCluster(broker_config={2: {}})
    with pytest.raises(ValueError, match="'4' is not a release of Kafka"):
        KafkaCluster(version="4")
    with pytest.raises(ValueError, match="no broker 7"):
        KafkaCluster().broker(7)


@pytest.mark.usefixtures("kafka_distribution")
def test_without_java_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="install a JDK 17"):
        KafkaDistribution.resolve()
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(KafkaUnavailableError, match="is Java 11, too old"):
        KafkaDistribution.resolve()


@pytest.mark.usefixtures("kafka_distribution")
def test_without_maven_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka_distribution: KafkaDistribution
) -> None:
    monkeypatch.setenv("AIOPRODUCER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(Path(kafka_distribution.java.executable).parents[1]))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="install Apache Maven"):
        KafkaDistribution.resolve()
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no route to the repository\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(KafkaUnavailableError, match=r"exit code 1\)(.*\n)*no route"):
        KafkaDistribution.resolve()
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".lock"}


@pytest.mark.usefixtures("kafka_distribution")
def test_the_jars_are_those_the_pom_names(kafka_distribution: KafkaDistribution) -> None:
    assert f"kafka-tools-{kafka_version()}.jar" in kafka_distribution.classpath


def test_a_cluster_for_the_session_and_topics_for_tests(
    tmp_path: Path, kafka_distribution: KafkaDistribution
) -> None:
    files = {
        "test_it.py": """
            import pytest
            from aioproducer import Producer
            from aioproducer.testing import KafkaCluster, expect

            async def test_a_record(kafka_cluster: KafkaCluster, kafka_topic: str):
                servers = kafka_cluster.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    await producer.send(kafka_topic, b"one espresso")
                await expect(kafka_topic, bootstrap_servers=servers).has_exactly([b"one espresso"])

            @pytest.mark.kafka_topic(partitions=3)
            async def test_a_transaction(kafka_cluster, kafka_topic, new_kafka_topic):
                other = new_kafka_topic(config={"cleanup.policy": "compact"})
                async with Producer(
                    bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="a"
                ) as producer:
                    assert len(await producer.partitions_for(kafka_topic)) == 3
                    async with producer.transaction():
                        await producer.send(other, b"v", key=b"k")
        """,
    }
    run = run_pytest(
        tmp_path,
        files,
        "--asyncio-mode=auto",
        plugins=("pytest_aioproducer", "pytest_asyncio.plugin"),
    )
    assert run.outcomes == {"passed": 2}, run.output
