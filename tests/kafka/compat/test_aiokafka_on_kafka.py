"""aiokafka's interface on real brokers, beside aiokafka's own consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest
from aiokafka import (
    AIOKafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.transactional import nothing_is_open
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PARTITIONS = 2
PATIENCE = 60.0


async def new_topic(kafka: KafkaCluster, what: str, **config: object) -> str:
    name = f"aiokafka-{what}-{uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await kafka.create_topic(name, PARTITIONS, replication_factor=3, config=settings)
    return name


def producer_on(kafka: KafkaCluster, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **options)


@asynccontextmanager
async def consumer_of(kafka: KafkaCluster, topic: str, **options: Any) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def committed_values(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """What ``read_committed`` shows up to the end, once no transaction is open there."""
    await until(lambda: nothing_is_open(kafka, topic), f"the transactions in {topic} have ended")
    found: list[bytes] = []
    async with consumer_of(kafka, topic, isolation_level="read_committed") as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        async with asyncio.timeout(PATIENCE):
            while any([await consumer.position(place) < end for place, end in ends.items()]):
                batches = await consumer.getmany(timeout_ms=100)
                found += [each.value for records in batches.values() for each in records]
    return found


async def test_consumed_offsets_move_with_the_transaction(kafka: KafkaCluster) -> None:
    """A transaction that fails leaves neither records nor offsets behind."""
    source, target = await new_topic(kafka, "in"), await new_topic(kafka, "out")
    group, records = f"{source}-group", 90
    async with producer_on(kafka, enable_idempotence=True) as producer:
        for number in range(records):
            await producer.send(source, b"%d" % number, partition=number % PARTITIONS)
    failures = 2
    async with (
        asyncio.timeout(PATIENCE),
        producer_on(kafka, transactional_id=f"{source}-writer") as producer,
        consumer_of(kafka, source, group_id=group, isolation_level="read_committed") as consumer,
    ):
        await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
        done = 0
        while done < records:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=20)
            offsets: dict[TopicPartition, Any] = {}
            try:
                async with producer.transaction():
                    for place, consumed in batches.items():
                        for each in consumed:
                            await producer.send(target, b"out-" + each.value, partition=place[1])
                        offsets[place] = OffsetAndMetadata(consumed[-1].offset + 1, "seen")
                    if offsets:
                        await producer.send_offsets_to_transaction(offsets, group)
                    if offsets and failures:
                        failures -= 1
                        raise KeyError
            except KeyError:
                for place, consumed in batches.items():
                    consumer.seek(place, consumed[0].offset)
                continue
            done += sum(map(len, batches.values()))

        async def all_are_committed() -> bool:
            found = [await consumer.committed(place) for place in consumer.assignment()]
            return found == [records // PARTITIONS] * PARTITIONS

        await until(all_are_committed, "the group sees the offsets of the last transaction")
    assert failures == 0
    found = await committed_values(kafka, target)
    assert sorted(found) == sorted(b"out-%d" % number for number in range(records))


async def test_a_newer_producer_fences_the_older_one(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "fenced")
    older = producer_on(kafka, transactional_id=topic)
    await older.start()
    async with producer_on(kafka, transactional_id=topic) as newer:

        async def write() -> None:
            async with older.transaction():
                await older.send_and_wait(topic, b"from the older")

        with pytest.raises(theirs.ProducerFenced) as caught:
            await write()
        assert isinstance(caught.value, ours.ProducerError)
        async with newer.transaction():
            await newer.send(topic, b"from the newer")
    await older.stop()
    assert await committed_values(kafka, topic) == [b"from the newer"]


async def test_a_cancelled_commit_goes_on(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "cancelled")
    async with producer_on(kafka, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"kept")
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        commit.cancel()
        await asyncio.wait([commit])
        assert commit.cancelled()
        await producer.begin_transaction()  # waits for the commit
        await producer.send(topic, b"dropped")
        await producer.abort_transaction()
    assert await committed_values(kafka, topic) == [b"kept"]


async def test_calls_that_do_not_fit_the_transaction(kafka: KafkaCluster) -> None:
    topic = await new_topic(kafka, "states")
    place = TopicPartition(topic, 0)
    async with producer_on(kafka, transactional_id=topic) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"by batch")
        for call in (
            producer.send(topic, b"v"),
            producer.send_batch(batch, topic, partition=0),
            producer.send_offsets_to_transaction({place: 1}, "group"),
            producer.commit_transaction(),
            producer.abort_transaction(),
        ):
            with pytest.raises(theirs.IllegalOperation):
                await call
        async with producer.transaction():
            with pytest.raises(AssertionError):
                await producer.begin_transaction()
            wrong: list[tuple[Any, Any]] = [({}, "group"), ({place: 1}, None), ({place: -1}, "g")]
            for offsets, group in wrong:
                with pytest.raises(ValueError, match=r"offset|group"):
                    await producer.send_offsets_to_transaction(offsets, group)
            await producer.send_batch(batch, topic, partition=0)
    assert await committed_values(kafka, topic) == [b"by batch"]


async def test_the_metadata_of_records(kafka: KafkaCluster) -> None:
    own = await new_topic(kafka, "time")
    brokers = await new_topic(kafka, "append", message_timestamp_type="LogAppendTime")
    long_ago = 1_600_000_000_000
    async with producer_on(kafka, acks="all") as producer:
        sent = await producer.send_and_wait(own, b"v", timestamp_ms=long_ago)
        assert (sent.timestamp, sent.timestamp_type, sent.log_start_offset) == (long_ago, 0, 0)
        sent = await producer.send_and_wait(brokers, b"v", timestamp_ms=long_ago)
        assert sent.timestamp > long_ago
        assert (sent.timestamp_type, sent.log_start_offset) == (1, 0)
        batch = producer.create_batch()
        batch.append(timestamp=long_ago, key=b"k", value=b"v", headers=[("h", b"1")])
        sent = await (await producer.send_batch(batch, brokers, partition=sent.partition))
        assert (sent.offset, sent.timestamp_type) == (1, 1)


async def test_a_topic_that_cannot_exist(kafka: KafkaCluster) -> None:
    async with producer_on(kafka) as producer:
        with pytest.raises(theirs.InvalidTopicError):
            await producer.send("not a name", b"v")
        with pytest.raises(theirs.InvalidTopicError):
            await producer.partitions_for("not a name")
