"""The table of librdkafka's options, judged by librdkafka itself."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import confluent_kafka
import pytest

from aioproducer import Producer, ProducerConfig
from aioproducer.config.librdkafka_options import BY_NAME, OF_CONSUMERS, ROWS, Row
from aioproducer.testing import MockCluster

OF_SERIALIZING_PRODUCER = {"key.serializer", "value.serializer"}
NO_SUCH_OPTION = "No such configuration property"
ROW = re.compile(r"^(?P<name>[a-zA-Z0-9_.]+) +\| +(?P<side>[CP*]) +\|", re.M)


def documented(path: Path) -> dict[str, str]:
    """The options that librdkafka prints, with ``P``, ``C`` or ``*`` for both."""
    [library] = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*")
    librdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = librdkafka.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = libc.fopen(bytes(path), b"w")
    librdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    found: dict[str, str] = {}
    for each in ROW.finditer(path.read_text("utf-8")):
        found[each["name"]] = found.get(each["name"], "") + each["side"]
    return found


def error_of(name: str) -> str:
    try:
        confluent_kafka.Producer({name: "something"})
    except (confluent_kafka.KafkaException, TypeError, ValueError, AttributeError) as error:
        return str(error)
    return ""


def test_every_option_that_librdkafka_documents_is_in_the_table(tmp_path: Path) -> None:
    found = documented(tmp_path / "CONFIGURATION.md")
    assert len(found) > 150
    of_producers = {name for name, sides in found.items() if set(sides) & {"P", "*"}}
    assert of_producers - set(BY_NAME) == set()
    assert set(found) - of_producers <= OF_CONSUMERS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names[0])
def test_every_option_of_the_table_is_known_to_confluent_kafka(row: Row) -> None:
    assert NO_SUCH_OPTION in error_of("no.such.option")
    for name in set(row.names) - OF_SERIALIZING_PRODUCER:
        assert NO_SUCH_OPTION not in error_of(name), name


@pytest.mark.parametrize(
    "options",
    [
        {"acks": -1, "linger.ms": 5.0, "compression.type": "lz4", "compression.level": 3},
        {"queue.buffering.max.kbytes": 65536, "batch.size": 100_000, "message.max.bytes": 900_000},
        {"message.timeout.ms": 5000, "socket.timeout.ms": 1000, "message.send.max.retries": 3},
        {"enable.idempotence": True, "max.in.flight": 5, "retry.backoff.ms": 50},
        {"statistics.interval.ms": 0, "api.version.request": True, "socket.nagle.disable": "t"},
        {"default.topic.config": {"acks": "all", "partitioner": "murmur2_random"}},
        {"topic.metadata.refresh.interval.ms": -1, "connections.max.idle.ms": 0},
        {"security.protocol": "PLAINTEXT", "client.id": "shop", "ssl.key.location": None},
    ],
)
async def test_both_clients_take_a_configuration(
    mock_cluster: MockCluster, options: dict[str, object]
) -> None:
    mock_cluster.create_topic("orders", 3)
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, **options}
    peer = confluent_kafka.Producer(dict(config))
    peer.produce("orders", b"theirs", b"key")
    assert peer.flush(30) == 0
    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        assert (await producer.send("orders", b"ours", key=b"key")).offset == 1
