"""Spark Connect: a client without a JVM, a server, and executors on a cluster; a real Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from aioproducer.testing import SchemaRegistryServer
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from benchmarks.spark.connect_server import connect_server
from benchmarks.spark.standalone import StandaloneCluster
from tests.kafka.transactional import committed
from tests.spark.shipped import an_archive
from tests.spark.sink import Sink, add_file, forget_last_commit, make_sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("protocol", [2], indirect=True),
]

ROWS = 1_000


class RefusedError(Exception):
    """What the client was told."""


class Client:
    """What :mod:`tests.spark.connect_client` can be asked for."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def ask(self, do: str, **arguments: Any) -> Any:
        """Raises :class:`RefusedError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "with": arguments}).encode() + b"\n")
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-3000:]
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["said"]


@pytest.fixture(scope="module")
def client(
    spark_cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("connect")
    log = folder / "client.log"
    with (
        connect_server(spark_cluster.url, folder / "server.log") as url,
        ProcessSupervisor() as supervisor,
        log.open("ab") as errors,
    ):
        process = supervisor.start(
            [sys.executable, "-m", "tests.spark.connect_client", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=sessions.ROOT,
        )
        yield Client(process, log)


@pytest.fixture
async def sink(transactional: KafkaCluster) -> Sink:
    return await make_sink(transactional)


def at_least_once(sink: Sink, **more: Any) -> dict[str, Any]:
    plain = {name: sink.options[name] for name in ("kafka.bootstrap.servers", "topic")}
    return plain | more


async def test_at_least_once(client: Client, sink: Sink) -> None:
    client.ask("write", options=at_least_once(sink), rows=ROWS)
    assert client.ask("partitions", options=at_least_once(sink), rows=ROWS) == ROWS
    assert await sink.committed() == sorted(2 * list(range(ROWS)))


@pytest.mark.registry
async def test_typed_columns(
    client: Client, sink: Sink, registry_server: SchemaRegistryServer
) -> None:
    formats = {"value.format": "avro", "schema.registry.url": registry_server.url}
    assert client.ask("typed", options=at_least_once(sink), formats=formats, rows=10) == 20
    values = await committed(sink.cluster, sink.topic)
    read = AvroDeserializer(SchemaRegistryClient({"url": registry_server.url}))
    context = SerializationContext(sink.topic, MessageField.VALUE)
    found = sorted(read(value, context)["id"] for value in values)
    assert found == sorted(4 * list(range(10)))


async def test_exactly_once_and_the_same_batch_again(client: Client, sink: Sink) -> None:
    for _ in range(2):
        client.ask("write_keyed", options={**sink.options, "sink.batch.id": 7}, rows=ROWS)
    assert await sink.committed() == list(range(ROWS))
    assert await sink.marker() == 8


async def test_partitions_are_published_as_a_whole(client: Client, sink: Sink) -> None:
    assert client.ask("partitions", options=sink.options, rows=ROWS) == ROWS
    assert await sink.committed() == list(range(ROWS))


async def test_a_stream_exactly_once(client: Client, sink: Sink, tmp_path: Path) -> None:
    for number in range(2):
        add_file(tmp_path / "rows", range(number * 50, (number + 1) * 50))
    client.ask("stream", options=sink.options, folder=str(tmp_path))
    forget_last_commit(tmp_path / "checkpoint")
    client.ask("stream", options=sink.options, folder=str(tmp_path))
    assert await sink.committed() == list(range(100))
    assert await sink.marker() == 2


async def test_publish_dataframe(client: Client, sink: Sink) -> None:
    assert client.ask("from_the_loop", options=sink.options, rows=ROWS) == ROWS
    assert await sink.committed() == list(range(ROWS))


def test_publish_dataframe_that_is_cancelled_ends_its_job(
    client: Client, sink: Sink, tmp_path: Path
) -> None:
    assert client.ask("cancelled", options=sink.options, marks=str(tmp_path)) < 30


async def test_foreach_batch_at_least_once(client: Client, sink: Sink, tmp_path: Path) -> None:
    add_file(tmp_path / "rows", range(50))
    client.ask("for_each_batch", options=at_least_once(sink), folder=str(tmp_path))
    assert await sink.committed() == list(range(50))


async def test_foreach_batch_exactly_once_is_refused(
    client: Client, sink: Sink, tmp_path: Path
) -> None:
    add_file(tmp_path / "rows", range(50))
    with pytest.raises(RefusedError, match=r"nor with Spark Connect: use writeStream\.format"):
        client.ask("for_each_batch", options=sink.options, folder=str(tmp_path))
    assert await sink.committed() == []


async def test_a_function_of_the_users_own_gives_the_number(
    client: Client, sink: Sink, tmp_path: Path
) -> None:
    """A write does not know its micro-batch here: without the option it would have no marker."""
    for number in range(2):
        add_file(tmp_path / "rows", range(number * 50, (number + 1) * 50))
    client.ask("own_function", options=sink.options, folder=str(tmp_path))
    forget_last_commit(tmp_path / "checkpoint")
    client.ask("own_function", options=sink.options, folder=str(tmp_path))
    assert await sink.committed() == list(range(100))


async def test_what_is_wrong_is_said(client: Client, sink: Sink) -> None:
    with pytest.raises(RefusedError, match=r"lingr.*linger"):
        client.ask("write", options=at_least_once(sink, **{"kafka.lingr.ms": 1}), rows=1)


async def test_who_registers_is_told_nothing(client: Client, sink: Sink) -> None:
    assert client.ask("registered", options=at_least_once(sink), rows=10) == 0
    assert await sink.committed() == list(range(10))


async def test_an_archive_reaches_tasks(client: Client, sink: Sink, tmp_path: Path) -> None:
    shipped = str(an_archive(tmp_path))
    prefix = client.ask("write_from_archive", options=sink.options, rows=ROWS, archive=shipped)
    assert prefix.endswith("/shipped")
    assert await sink.committed() == list(range(ROWS))
