"""Built-in serializers in a producer: every way of sending, read back by other clients."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as Place
from cloudevents.core.v1.event import CloudEvent

from aioproducer import Producer, ProducerConfig, ProducerRecord, SerializationError, sync
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
from aioproducer.testing import MockCluster, read_back, read_back_sync

pa: Any = pytest.importorskip("pyarrow")


@pytest.fixture
def orders() -> Iterator[MockCluster]:
    with MockCluster(topics={"orders": 1}) as cluster:
        yield cluster


async def test_every_way_of_sending(orders: MockCluster) -> None:
    servers = orders.bootstrap_servers
    async with Producer(
        bootstrap_servers=servers, key_serializer=LongSerializer, value_serializer=JsonSerializer()
    ) as producer:
        await producer.send("orders", {"n": 1}, key=1)
        await producer.send(ProducerRecord("orders", [2], key=2))
        report = await producer.send_many("orders", ["3", None, ProducerRecord("orders", 4, 5)])
        assert report.delivered == 3
        with pytest.raises(SerializationError, match=r"LongSerializer takes an int .* not a str"):
            producer.send("orders", 1, key="1")  # type: ignore[arg-type]
        with pytest.raises(SerializationError, match="a set has no form in JSON"):
            producer.send("orders", {1})
        refused = await producer.send_many("orders", [b"bytes are no JSON", 6])
        assert (refused.delivered, refused.failed) == (1, 1)
    values = [b'{"n":1}', b"[2]", b'"3"', None, b"4", b"6"]
    keys = [struct.pack(">q", 1), struct.pack(">q", 2), None, None, struct.pack(">q", 5), None]
    records = await read_back("orders", bootstrap_servers=servers)
    assert [record.value for record in records] == values
    assert [record.key for record in records] == keys


async def test_deserializers_in_aiokafka(orders: MockCluster) -> None:
    servers = orders.bootstrap_servers
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


async def test_arrow_columns(orders: MockCluster) -> None:
    columns = pa.table({"key": ["a", None], "value": [b"1", b"2"]})
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=BytesSerializer()
    ) as producer:
        assert (await producer.send_many("orders", columns)).delivered == 2
    async with Producer(
        bootstrap_servers=orders.bootstrap_servers, value_serializer=StringSerializer()
    ) as producer:
        report = await producer.send_many("orders", columns)
    assert report.failed == 2
    assert "StringSerializer takes a str, not a bytes" in str(report.failures[0])
    records = await read_back("orders", bootstrap_servers=orders.bootstrap_servers)
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (None, b"2")]


async def test_cloud_events(orders: MockCluster) -> None:
    event = CloudEvent({"source": "/shop", "type": "order.placed", "partitionkey": "a"}, {"n": 1})
    for mode in ("binary", "structured"):
        async with Producer(
            bootstrap_servers=orders.bootstrap_servers, value_serializer=CloudEventSerializer(mode)
        ) as producer:
            key = event.get_extension("partitionkey")
            await producer.send("orders", event, key=key, headers={"trace": b"1"})
    reader = CloudEventDeserializer()
    records = await read_back("orders", bootstrap_servers=orders.bootstrap_servers)
    assert len(records) == 2
    for record in records:
        assert record.key == b"a"
        assert ("trace", b"1") in record.headers
        read = reader.deserialize(record.topic, record.value, record.headers)
        assert read is not None
        assert read.get_attributes() == event.get_attributes()
        assert read.get_data() == {"n": 1}


def test_java_properties(orders: MockCluster) -> None:
    config = ProducerConfig.from_properties(
        {
            "bootstrap.servers": orders.bootstrap_servers,
            "key.serializer": "org.apache.kafka.common.serialization.LongSerializer",
            "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        }
    )
    with sync.Producer[int, str](config) as producer:
        producer.send("orders", "text", key=7).result()
    [record] = read_back_sync("orders", bootstrap_servers=orders.bootstrap_servers)
    longs: Deserializer[int] = LongDeserializer()
    assert (longs(record.key), record.value) == (7, b"text")
