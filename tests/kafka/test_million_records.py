"""A million records through the public API: each future tells where its record really is."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque

import pytest
from confluent_kafka import Consumer, TopicPartition

from aioproducer import Producer, RecordMetadata
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 1_000_000
PARTITIONS = 12
FUTURES_AT_ONCE = 20_000
NOWHERE = -1


class Promises:
    """Where the future of each record says that it is; twelve bytes a record."""

    def __init__(self, records: int) -> None:
        self.partitions = array("i", [NOWHERE]) * records
        self.offsets = array("q", [NOWHERE]) * records
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, metadata: RecordMetadata) -> None:
        self.partitions[self._count] = metadata.partition
        self.offsets[self._count] = metadata.offset
        self._count += 1


def key_of(number: int) -> bytes | None:
    return b"%d" % (number % 5000) if number % 2 else None


def value_of(number: int) -> bytes:
    return b"%d of a million " % number + b"." * (number % 70)


async def send_all(bootstrap_servers: str, topic: str) -> Promises:
    promises = Promises(RECORDS)
    pending: deque[asyncio.Future[RecordMetadata]] = deque()
    async with Producer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        for number in range(RECORDS):
            pending.append(producer.send(topic, value_of(number), key=key_of(number)))
            await producer.drain()
            if len(pending) > FUTURES_AT_ONCE:
                while len(pending) > FUTURES_AT_ONCE // 2:
                    promises.add(await pending.popleft())
        while pending:
            promises.add(await pending.popleft())
    return promises


def check_all(bootstrap_servers: str, topic: str, promises: Promises) -> None:
    """Read the topic to its end: each record once, where its future said, in send order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
        }
    )
    assigned = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(assigned)
    seen = bytearray(RECORDS)
    last = [-1] * PARTITIONS
    count = 0
    deadline = time.monotonic() + 60
    while count < RECORDS:
        assert time.monotonic() < deadline, f"only {count} records were read in 60 s"
        for message in consumer.consume(10_000, 1.0):
            assert message.error() is None
            value, partition = message.value(), message.partition()
            assert isinstance(value, bytes)
            assert partition is not None
            number = int(value.partition(b" ")[0])
            assert value == value_of(number)
            assert message.key() == key_of(number)
            assert not seen[number], f"record {number} is there twice"
            seen[number] = True
            assert partition == promises.partitions[number]
            assert message.offset() == promises.offsets[number]
            assert number > last[partition], f"record {number} was overtaken"
            last[partition] = number
            count += 1
    ends = [consumer.get_watermark_offsets(each, timeout=10) for each in assigned]
    consumer.close()
    assert sum(high - low for low, high in ends) == RECORDS
    assert min(last) >= 0, "a partition is empty"


async def test_each_of_a_million_records_is_where_its_future_says(kafka: KafkaCluster) -> None:
    topic = "a-million"
    await kafka.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    began = time.monotonic()
    promises = await send_all(kafka.bootstrap_servers, topic)
    sent = time.monotonic()
    assert len(promises) == RECORDS
    assert min(promises.offsets) == 0
    await asyncio.to_thread(check_all, kafka.bootstrap_servers, topic, promises)
    rate, reading = RECORDS / (sent - began), time.monotonic() - sent
    print(f"{rate:.0f} confirmed records/s; read back in {reading:.1f} s")
