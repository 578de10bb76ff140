"""Serializers, partitioners and interceptors, built-in ones too, and when they fail."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, ClassVar
from uuid import UUID

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as Place
from cloudevents.core.v1.event import CloudEvent

from aioproducer import (
    KafkaError,
    Partitions,
    Producer,
    ProducerConfig,
    ProducerError,
    ProducerRecord,
    RecordMetadata,
    SerializationError,
    sync,
)
from aioproducer.errors import (
    InvalidPartitionError,
    ProducerClosedError,
    RecordTooLargeError,
)
from aioproducer.serialization import (
    BytesSerializer,
    CloudEventDeserializer,
    CloudEventSerializer,
    Deserializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerializer,
)
from aioproducer.testing import read_back, read_back_sync
from aioproducer.testing.mock_cluster import ALL_BROKERS, MockCluster
from tests.support.read_back import read_first

PRODUCE = 0
PATIENCE = 60.0


def keys_and_values(cluster: MockCluster, count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) for each in read_first(cluster, "orders", count)]


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, topics={"orders": 4}) as cluster:
        yield cluster


# --- serializers --------------------------------------------------------------------------------


class NotedJson:
    topics: ClassVar[list[str]] = []

    def serialize(self, topic: str, data: Any) -> bytes | None:
        self.topics.append(topic)
        return json.dumps(data).encode()


@pytest.mark.parametrize(
    "serializer",
    [lambda value: json.dumps(value).encode(), NotedJson, NotedJson()],
    ids=["callable", "class", "object"],
)
async def test_serializers(orders: MockCluster, serializer: Any) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        value_serializer=serializer,
        key_serializer=lambda key: b"<%d>" % key,
    ) as producer:
        sent = await producer.send("orders", {"a": [1, None]}, key=7, partition=0)
        assert (sent.serialized_key_size, sent.serialized_value_size) == (3, 16)
        await producer.send("orders", None, key=8, partition=0)
        report = await producer.send_many("orders", [1, "two", b"3".decode()], partition=0)
        assert report.delivered == 3
    assert keys_and_values(orders, 5) == [
        (b"<7>", b'{"a": [1, null]}'),
        (b"<8>", None),
        (None, b"1"),
        (None, b'"two"'),
        (None, b'"3"'),
    ]


@pytest.mark.parametrize(
    ("serializer", "match"),
    [
        (lambda value: 1 / 0, "value_serializer failed on a str.*'orders'.*ZeroDivisionError"),
        (
            lambda value: "text",
            r"value_serializer returned str.*bytes or None: encode the text.*\.encode",
        ),
        (lambda value: value.missing, "AttributeError"),
        (
            lambda value: json.dumps({"at": datetime.now(UTC)}).encode(),
            r"datetime is not JSON serializable\. aioproducer.serialization.JsonSerializer\(\) ",
        ),
    ],
    ids=["raises", "returns str", "bug", "not representable in JSON"],
)
async def test_a_serializer_that_fails(orders: MockCluster, serializer: Any, match: str) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=serializer
    ) as producer:
        with pytest.raises(SerializationError, match=match):
            producer.send("orders", "v")
        assert (await producer.send("orders", None)).topic == "orders"


async def test_a_serializer_may_say_null(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=lambda value: None
    ) as producer:
        assert (await producer.send("orders", "v", partition=0)).serialized_value_size == -1
    assert keys_and_values(orders, 1) == [(None, None)]


# --- partitioners -------------------------------------------------------------------------------


class LastByte:
    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Partitions
    ) -> int:
        assert topic == "orders"
        assert partitions.count == 4
        assert list(partitions.available) == [0, 1, 2, 3]
        return (value or b"\0")[-1] % partitions.count


@pytest.mark.parametrize(
    "partitioner",
    [LastByte, LastByte(), LastByte().partition],
    ids=["class", "object", "callable"],
)
async def test_partitioners(orders: MockCluster, partitioner: Any) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, partitioner=partitioner
    ) as producer:
        early = [producer.send("orders", bytes([n]), key=b"k") for n in range(8)]
        await producer.flush(PATIENCE)
        late = [producer.send("orders", bytes([n]), key=b"k") for n in range(8)]
        explicit = producer.send("orders", b"\0", partition=3)
    assert [future.result().partition for future in early] == [0, 1, 2, 3] * 2
    assert [future.result().partition for future in late] == [0, 1, 2, 3] * 2
    assert explicit.result().partition == 3


@pytest.mark.parametrize(
    ("partitioner", "match"),
    [
        (lambda *_: 1 / 0, "the partitioner failed.*'orders'.*ZeroDivisionError"),
        (lambda key: 0, r"TypeError: .* \(it gets topic, key, value, partitions\)"),
        (lambda *_: 4, "returned 4.*partitions 0 to 3"),
        (lambda *_: -1, "returned -1"),
        (lambda *_: "0", "returned '0'"),
        (lambda *_: None, "returned None"),
        (lambda *_: True, "returned True"),
    ],
    ids=["raises", "of another client", "too high", "negative", "str", "None", "bool"],
)
async def test_a_partitioner_that_fails(orders: MockCluster, partitioner: Any, match: str) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, partitioner=partitioner
    ) as producer:
        with pytest.raises(InvalidPartitionError, match=match):
            await asyncio.wait_for(producer.send("orders", b"v"), PATIENCE)
        with pytest.raises(InvalidPartitionError, match=match):
            producer.send("orders", b"v")
        assert (await producer.send("orders", b"v", partition=1)).partition == 1


async def test_round_robin(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, partitioner="round_robin"
    ) as producer:
        sent = [(await producer.send("orders", b"v", key=b"same")).partition for _ in range(8)]
    assert sent[:4] == sent[4:]
    assert sorted(sent[:4]) == [0, 1, 2, 3]


async def test_keyless_records_stick_and_move_on(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, batch_size=2_000, linger_ms=20
    ) as producer:
        futures = [producer.send("orders", bytes(100)) for _ in range(2_000)]
        sent = [(await future).partition for future in futures]
    assert set(sent) == {0, 1, 2, 3}
    moves = sum(earlier != later for earlier, later in pairwise(sent))
    assert 20 < moves < 200  # a batch at a time, not record by record
    for partition in range(4):
        assert 200 < sent.count(partition) < 900


async def test_ignoring_keys(orders: MockCluster) -> None:
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, partitioner_ignore_keys=True, batch_size=500
    ) as producer:
        futures = [producer.send("orders", bytes(100), key=b"same") for _ in range(300)]
        assert len({(await future).partition for future in futures}) == 4


# --- interceptors -------------------------------------------------------------------------------


class Witness:
    """Marks each record, and keeps what it hears."""

    def __init__(self, mark: bytes = b"!") -> None:
        self.mark = mark
        self.fates: list[tuple[RecordMetadata | None, BaseException | None]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value + self.mark, partition=record.partition)

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.fates.append((metadata, error))

    def close(self) -> None:
        self.closed += 1


async def test_interceptors_in_their_order(orders: MockCluster) -> None:
    first, second = Witness(b"1"), Witness(b"2")
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[first, second, Witness]
    ) as producer:
        sent = [await producer.send("orders", b"v", partition=0) for _ in range(2)]
        assert first.closed == 0
    assert keys_and_values(orders, 2) == [(None, b"v12!")] * 2
    assert first.fates == second.fates == [(each, None) for each in sent]
    assert (first.closed, second.closed) == (1, 1)


async def test_interceptors_hear_of_failures(orders: MockCluster) -> None:
    witness = Witness()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[witness]
    ) as producer:
        await producer.send("orders", b"v", partition=0)
        orders.push_request_errors(PRODUCE, 87)
        with pytest.raises(KafkaError) as refused:
            await producer.send("orders", b"v", partition=0)
        with pytest.raises(InvalidPartitionError) as wrong:
            producer.send("orders", b"v", partition=-44)
        orders.set_broker_down(ALL_BROKERS)
        late = producer.send("orders", b"v", partition=0)
        await producer.close(0)
    assert [error for _, error in witness.fates[1:]] == [
        refused.value,
        wrong.value,
        late.exception(),
    ]


@pytest.mark.parametrize("prepares", [False, True])
async def test_headers_that_can_be_read_once_reach_the_record_and_interceptors(
    orders: MockCluster, prepares: bool
) -> None:
    seen: list[object] = []

    class Watching:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            seen.append(headers)

    class Preparing:
        async def prepare(self, topic: str) -> None: ...

        def serialize(self, topic: str, data: bytes) -> bytes:
            return data

    headers: Any = iter([("trace", b"1"), ("span", b"2")])
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        interceptor_classes=[Watching],
        value_serializer=Preparing() if prepares else None,
    ) as producer:
        await producer.send("orders", b"v", partition=0, headers=headers)
    assert seen == [(("trace", b"1"), ("span", b"2"))]
    assert read_first(orders, "orders", 1)[0].headers == [("trace", b"1"), ("span", b"2")]


async def test_what_interceptors_know_of_a_record_that_failed(orders: MockCluster) -> None:
    """Its topic, its headers, and its partition as soon as one was chosen."""
    fates: list[tuple[RecordMetadata, object, object]] = []

    class Watching:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            fates.append((metadata, type(error), headers))

    def nowhere(topic: str, partition: int = -1) -> RecordMetadata:
        return RecordMetadata(topic, partition, -1, -1, -1, -1)

    headers = {"trace": b"1"}
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[Watching]
    ) as producer:
        sent = await producer.send("orders", b"v", key=b"k", headers=headers)
        orders.push_request_errors(PRODUCE, 87)
        refused = producer.send("orders", b"v", key=b"k", headers=headers)
        await asyncio.wait([refused])
        with pytest.raises(RecordTooLargeError):
            producer.send("orders", bytes(2_000_000), partition=1)
        with pytest.raises(SerializationError):
            producer.send("orders", object())  # type: ignore[arg-type]
        orders.set_broker_down(ALL_BROKERS)
        report = asyncio.create_task(
            producer.send_many("orders", [ProducerRecord("orders", b"v", partition=2)])
        )
        unknown = producer.send("unknown", b"v", headers=headers)
        await asyncio.sleep(0)
        await producer.close(0)
        assert (await report).failed == 1
        assert unknown.done()
    pairs = (("trace", b"1"),)
    assert fates[:4] == [
        (sent, type(None), pairs),
        (nowhere("orders", sent.partition), type(refused.exception()), pairs),
        (nowhere("orders", 1), RecordTooLargeError, ()),
        (nowhere("orders"), SerializationError, ()),
    ]
    assert sorted(fates[4:], key=str) == [
        (nowhere("orders", 2), ProducerClosedError, ()),
        (nowhere("unknown"), ProducerClosedError, pairs),
    ]


class Faulty:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ZeroDivisionError

    def on_acknowledgement(self, *_: Any) -> None:
        raise ZeroDivisionError

    def close(self) -> None:
        raise ZeroDivisionError


class Forgetful:
    def on_send(self, record: ProducerRecord) -> None:
        return None


async def test_faulty_interceptors_break_nothing(
    orders: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        interceptor_classes=[Faulty(), Forgetful(), witness, object],
    ) as producer:
        assert (await producer.send("orders", b"v", partition=0)).offset == 0
        report = await producer.send_many("orders", [b"a", b"b"], partition=0)
        assert report.delivered == 2
    assert keys_and_values(orders, 3) == [(None, b"v!"), (None, b"a!"), (None, b"b!")]
    assert len(witness.fates) == 3
    assert witness.closed == 1
    assert {each.levelno for each in caplog.records} == {logging.ERROR}
    text = caplog.text
    assert all(name in text for name in ("on_send", "on_acknowledgement", "close", "Faulty"))
    assert "Forgetful" in text


async def test_an_interceptor_that_sends(orders: MockCluster) -> None:
    """An audit record for each delivery, from within the acknowledgement."""
    audits: list[asyncio.Future[RecordMetadata]] = []

    class Audit:
        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            if metadata is not None and metadata.partition == 0:
                audits.append(producer.send("orders", b"audit", partition=3))

    producer = Producer(bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[Audit])
    async with producer:
        await asyncio.gather(*(producer.send("orders", b"v", partition=0) for _ in range(50)))
        assert len(audits) == 50
        assert [each.offset for each in await asyncio.gather(*audits)] == list(range(50))


async def test_a_callback_of_a_future_that_sends(orders: MockCluster) -> None:
    chained: list[asyncio.Future[RecordMetadata]] = []
    async with Producer(bootstrap_servers=orders.bootstrap_servers) as producer:

        def again(_: asyncio.Future[RecordMetadata]) -> None:
            if len(chained) < 20:
                chained.append(producer.send("orders", b"again", partition=1))
                chained[-1].add_done_callback(again)

        producer.send("orders", b"v", partition=1).add_done_callback(again)
        async with asyncio.timeout(PATIENCE):
            while len(chained) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert [future.result().offset for future in chained] == list(range(1, 21))


def test_hooks_that_are_none() -> None:
    for option in ("value_serializer", "partitioner", "interceptor_classes"):
        wrong: dict[str, Any] = {option: 5}
        with pytest.raises(ProducerError, match=option):
            Producer(bootstrap_servers="127.0.0.1:1", **wrong)


async def test_interceptors_hear_of_the_failures_in_send_many(orders: MockCluster) -> None:
    class Watching:
        def __init__(self) -> None:
            self.errors: list[BaseException | None] = []

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            self.errors.append(error)

    watching = Watching()
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, interceptor_classes=[watching]
    ) as producer:
        orders.push_request_errors(PRODUCE, 87)
        report = await producer.send_many("orders", [b"refused"], partition=0)
        assert report.failed == 1
        assert watching.errors == [report.first_failure]
        assert (await producer.send("orders", b"fine")).offset == 0


async def test_hooks_see_a_record_once_that_had_to_wait_for_a_place_in_line(
    orders: MockCluster,
) -> None:
    seen: list[object] = []

    class Watching:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(("sent", record.value))
            return record

        def on_acknowledgement(self, _: RecordMetadata | None, error: BaseException | None) -> None:
            seen.append(("acknowledged", error))

    def serialize(value: int) -> bytes:
        seen.append(("serialized", value))
        return bytes(value)

    def partition(_: str, __: object, value: bytes | None, ___: Partitions) -> int:
        seen.append(("partitioned", len(value or b"")))
        return 0

    async with Producer(
        bootstrap_servers=orders.bootstrap_servers,
        interceptor_classes=[Watching],
        value_serializer=serialize,
        partitioner=partition,
        buffer_memory=100_000,
        batch_size=1_000,
        max_request_size=60_000,
    ) as producer:
        report = await producer.send_many("orders", [11_000, 40_000])
    assert report.delivered == 2
    once = [
        (hook, size) for hook in ("sent", "serialized", "partitioned") for size in (11_000, 40_000)
    ]
    assert Counter(seen) == Counter([*once, *[("acknowledged", None)] * 2])


pa: Any = pytest.importorskip("pyarrow")


@pytest.fixture
def one_topic() -> Iterator[MockCluster]:
    with MockCluster(topics={"orders": 1}) as cluster:
        yield cluster


async def test_every_way_of_sending(one_topic: MockCluster) -> None:
    servers = one_topic.bootstrap_servers
    async with Producer(
        bootstrap_servers=servers, key_serializer=LongSerializer, value_serializer=JsonSerializer()
    ) as producer:
        await producer.send("orders", {"n": 1}, key=1)
        await producer.send(ProducerRecord("orders", [2], key=2))
        report = await producer.send_many("orders", ["3", None, ProducerRecord("orders", 4, 5)])
        assert report.delivered == 3
        with pytest.raises(SerializationError, match=r"LongSerializer takes an int .* not a str"):
            producer.send("orders", 1, key="1")  # type: ignore[arg-type]
        with pytest.raises(SerializationError, match="'orders': JSON can't represent a set"):
            producer.send("orders", {1})
        refused = await producer.send_many("orders", [b"bytes are no JSON", 6])
        assert (refused.delivered, refused.failed) == (1, 1)
    values = [b'{"n":1}', b"[2]", b'"3"', None, b"4", b"6"]
    keys = [struct.pack(">q", 1), struct.pack(">q", 2), None, None, struct.pack(">q", 5), None]
    records = await read_back("orders", bootstrap_servers=servers)
    assert [record.value for record in records] == values
    assert [record.key for record in records] == keys


async def test_deserializers_in_aiokafka(one_topic: MockCluster) -> None:
    servers = one_topic.bootstrap_servers
    value: list[Any] = [1, {"a": None}]
    async with Producer(
        bootstrap_servers=servers, key_serializer=UUIDSerializer, value_serializer=JsonSerializer
    ) as producer:
        await producer.send("orders", value, key=UUID(int=1))
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        key_deserializer=UUIDDeserializer(),
        value_deserializer=JsonDeserializer[Any](),
        auto_offset_reset="earliest",
    )
    consumer.assign([Place("orders", 0)])
    await consumer.start()
    try:
        record = await consumer.getone()
    finally:
        await consumer.stop()
    assert (record.key, record.value) == (UUID(int=1), value)


async def test_arrow_columns(one_topic: MockCluster) -> None:
    columns = pa.table({"key": ["a", None], "value": [b"1", b"2"]})
    async with Producer(
        bootstrap_servers=one_topic.bootstrap_servers, value_serializer=BytesSerializer()
    ) as producer:
        assert (await producer.send_many("orders", columns)).delivered == 2
    async with Producer(
        bootstrap_servers=one_topic.bootstrap_servers, value_serializer=StringSerializer()
    ) as producer:
        report = await producer.send_many("orders", columns)
    assert report.failed == 2
    assert "StringSerializer takes a str, not a bytes" in str(report.failures[0])
    records = await read_back("orders", bootstrap_servers=one_topic.bootstrap_servers)
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (None, b"2")]


async def test_cloud_events(one_topic: MockCluster) -> None:
    event = CloudEvent({"source": "/shop", "type": "order.placed", "partitionkey": "a"}, {"n": 1})
    for mode in ("binary", "structured"):
        async with Producer(
            bootstrap_servers=one_topic.bootstrap_servers,
            value_serializer=CloudEventSerializer(mode),
        ) as producer:
            key = event.get_extension("partitionkey")
            await producer.send("orders", event, key=key, headers={"trace": b"1"})
    reader = CloudEventDeserializer()
    records = await read_back("orders", bootstrap_servers=one_topic.bootstrap_servers)
    assert len(records) == 2
    for record in records:
        assert record.key == b"a"
        assert ("trace", b"1") in record.headers
        read = reader.deserialize(record.topic, record.value, record.headers)
        assert read is not None
        assert read.get_attributes() == event.get_attributes()
        assert read.get_data() == {"n": 1}


def test_java_properties(one_topic: MockCluster) -> None:
    config = ProducerConfig.from_properties(
        {
            "bootstrap.servers": one_topic.bootstrap_servers,
            "key.serializer": "org.apache.kafka.common.serialization.LongSerializer",
            "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        }
    )
    with sync.Producer[int, str](config) as producer:
        producer.send("orders", "text", key=7).result()
    [record] = read_back_sync("orders", bootstrap_servers=one_topic.bootstrap_servers)
    longs: Deserializer[int] = LongDeserializer()
    assert (longs(record.key), record.value) == (7, b"text")
