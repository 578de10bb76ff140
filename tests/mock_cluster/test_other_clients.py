"""Other clients judge our options and partitions, and we read the batches that they wrote."""

from __future__ import annotations

import asyncio
import ctypes
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import pytest
from confluent_kafka import Producer as Librdkafka

from aioproducer import Producer, ProducerConfig
from aioproducer.config.librdkafka import BY_NAME, OF_CONSUMERS, ROWS, Row
from aioproducer.engine.records.decoder import RecordBatch, records_to_arrow
from aioproducer.model import Header, TopicPartition
from aioproducer.testing import MockCluster
from tests.support.fetching import all_batches, all_records

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


PARTITIONS = 7


def some_keys() -> list[bytes]:
    random = Random("some keys")
    corners = [b"\xff" * length for length in range(1, 41)] + [bytes(range(40))]
    return corners + [random.randbytes(random.randrange(1, 41)) for _ in range(1_000)]


@pytest.mark.parametrize(
    ("theirs", "empty"),
    [
        ({}, False),
        ({"partitioner": "consistent"}, True),
        ({"partitioner": "murmur2"}, True),
        ({"partitioner": "murmur2_random"}, True),
        ({"partitioner": "fnv1a"}, True),
        ({"partitioner": "fnv1a_random"}, True),
    ],
    ids=lambda each: each.get("partitioner", "default") if isinstance(each, dict) else "",
)
async def test_keys_have_the_partitions_that_librdkafka_chooses(
    mock_cluster: MockCluster, theirs: dict[str, str], empty: bool
) -> None:
    """``empty``: the partition of an empty key is not a random one."""
    mock_cluster.create_topic("orders", PARTITIONS)
    keys = some_keys() + [b""] * empty
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Any) -> None:
        assert error is None
        chosen[message.key()] = message.partition()

    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, **theirs}
    peer = Librdkafka(config)
    for key in keys:
        peer.produce("orders", b"v", key, on_delivery=delivered)
    assert peer.flush(60) == 0
    assert set(chosen.values()) == set(range(PARTITIONS))

    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        sent = [producer.send("orders", b"v", key=key) for key in keys]
        assert [(await each).partition for each in sent] == [chosen[key] for key in keys]


async def test_our_names_of_their_partitioners(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", PARTITIONS)
    for name in ("consistent_random", "consistent", "fnv1a", "random"):
        config = ProducerConfig(
            bootstrap_servers=mock_cluster.bootstrap_servers,
            partitioner=name,
        )
        async with Producer(config) as producer:
            assert 0 <= (await producer.send("orders", b"v")).partition < PARTITIONS


async def test_keyless_records_of_librdkafkas_partitioners_share_batches(
    mock_cluster: MockCluster,
) -> None:
    mock_cluster.create_topic("orders", PARTITIONS)
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    async with Producer(ProducerConfig.from_librdkafka(config)) as producer:
        await producer.send("orders", b"the topic is known now")
        sent = [producer.send("orders", bytes(80)) for _ in range(100)]
        assert len({(await each).partition for each in sent}) <= 2


CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
WHERE: Final = TopicPartition("orders", 0)
NOW: Final = 1_700_000_000_000


class Sent(NamedTuple):
    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOW


SHAPES: Final = [
    Sent(None, b"tombstone"),
    Sent(b"", b""),
    Sent("Grüße".encode(), "ключ".encode(), (("größe", "🎈".encode()), ("again", b"1"))),
    Sent(headers=(("again", b"1"), ("again", b""), ("null", None))),
    Sent(timestamp_ms=NOW - 86_400_000),
    Sent(timestamp_ms=1),
    *[Sent(b"x" * size, b"k" * (size % 130), timestamp_ms=NOW + size) for size in range(1, 300)],
    Sent(b"0123456789abcdef" * 4_400),
]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, topics={"orders": 1}) as started:
        yield started


async def confluent(bootstrap_servers: str, codec: str, sent: list[Sent]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 50}
    )
    for each in sent:
        producer.produce(
            "orders",
            each.value,
            each.key,
            partition=0,
            headers=list(each.headers),
            timestamp=each.timestamp_ms,
        )
    assert await asyncio.to_thread(producer.flush, 30.0) == 0


async def aiokafka_(bootstrap_servers: str, codec: str, sent: list[Sent]) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=None if codec == "none" else codec,
        linger_ms=50,
    ) as producer:
        await asyncio.gather(
            *[
                await producer.send(
                    "orders",
                    each.value,
                    each.key,
                    partition=0,
                    headers=list(each.headers),
                    timestamp_ms=each.timestamp_ms,
                )
                for each in sent
            ]
        )


async def ours(bootstrap_servers: str, codec: Any, sent: list[Sent]) -> None:
    async with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec) as producer:
        for each in sent:
            producer.send(
                "orders",
                each.value,
                key=each.key,
                partition=0,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
            )


def as_sent(batches: list[RecordBatch]) -> list[Sent]:
    return [
        Sent(each.value, each.key, each.headers, each.timestamp_ms)
        for batch in batches
        for each in batch
    ]


@pytest.mark.parametrize("writer", [ours, confluent, aiokafka_])
@pytest.mark.parametrize("codec", CODECS)
async def test_every_shape_in_every_compression(
    cluster: MockCluster, writer: Callable[[str, str, list[Sent]], Awaitable[None]], codec: str
) -> None:
    await writer(cluster.bootstrap_servers, codec, SHAPES)
    encoded = await all_batches(cluster.bootstrap_servers, WHERE)
    assert CODECS.index(codec) in {each.compression_id for each in encoded}
    found = await all_records(cluster.bootstrap_servers, WHERE)
    assert as_sent(found) == SHAPES
    assert [each.offset for batch in found for each in batch] == list(range(len(SHAPES)))


async def test_arrow_columns_go_out_as_they_came_in(cluster: MockCluster) -> None:
    pytest.importorskip("pyarrow")
    await ours(cluster.bootstrap_servers, "zstd", SHAPES)
    columns = records_to_arrow(await all_records(cluster.bootstrap_servers, WHERE))
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        report = await producer.send_many("orders", columns)
    report.raise_for_failures()
    assert as_sent(await all_records(cluster.bootstrap_servers, WHERE)) == SHAPES * 2
