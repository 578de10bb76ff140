"""What becomes of a record, by ``acks``, by the topic's configuration, by the broker's refusals."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from random import randbytes
from typing import Any

import pytest
import uvloop
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from aioproducer import KafkaError as BrokerError
from aioproducer import MetadataTimeoutError, Producer, RecordMetadata, RecordTooLargeError
from aioproducer.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    MessageTooLargeError,
)
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

LONG_AGO = 1_000
"""A timestamp in ms."""
QUOTA = 100_000
"""Bytes per second."""


@pytest.fixture(scope="module")
def strict(kafka_distribution: KafkaDistribution) -> Iterator[KafkaCluster]:
    """One broker that creates no topic by itself, with short quota windows."""
    config = {"auto.create.topics.enable": False, "quota.window.num": 2}
    with KafkaCluster(brokers=1, config=config) as cluster:
        yield cluster


def read(cluster: KafkaCluster, topic: str, count: int, partitions: int = 1) -> list[bytes | None]:
    """The values up to the end of each partition, but not before there are ``count``."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "never-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: list[bytes | None] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 20
    while len(values) < count or len(ended) < partitions:
        assert time.monotonic() < deadline, f"{len(values)} records of {topic}, not {count}"
        for message in consumer.consume(1000, 0.02):
            error = message.error()
            if error is None:
                value = message.value()
                assert not isinstance(value, str)
                values.append(value)
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return values


async def errors_of(
    futures: list[asyncio.Future[RecordMetadata]],
) -> list[BaseException | None]:
    await asyncio.wait(futures, timeout=20)
    return [future.exception() for future in futures]


# --- acks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_records_arrive_whatever_acks_says(kafka: KafkaCluster, acks: Any) -> None:
    topic = f"acks-{acks}"
    await kafka.create_topic(topic, replication_factor=3)
    values = [b"%d" % number for number in range(100)]
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, acks=acks) as producer:
        futures = [producer.send(topic, value) for value in values]
        offsets = [(await future).offset for future in futures]
    assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
    assert await asyncio.to_thread(read, kafka, topic, 100) == values


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
async def test_without_acks_close_sends_all_that_is_there(kafka: KafkaCluster, loop: Any) -> None:
    topic = f"unanswered-{loop.__module__}"
    await kafka.create_topic(topic, replication_factor=1)

    async def publish() -> None:
        async with Producer(
            bootstrap_servers=kafka.bootstrap_servers, acks=0, buffer_memory=4_000_000
        ) as producer:
            for number in range(200):
                producer.send(topic, b"%d " % number + bytes(100_000))
                await producer.drain()

    def run() -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(publish())

    await asyncio.to_thread(run)
    values = await asyncio.to_thread(read, kafka, topic, 200)
    assert [int((value or b"").split()[0]) for value in values] == list(range(200))


# --- topics that are not there --------------------------------------------------------------


async def test_an_unknown_topic_fails_after_max_block_ms_and_holds_up_nobody(
    strict: KafkaCluster,
) -> None:
    await strict.create_topic("known")
    async with Producer(bootstrap_servers=strict.bootstrap_servers, max_block_ms=8000) as producer:
        began = time.monotonic()
        unknown = [producer.send("who-knows", b"x"), producer.send("who-knows", b"y", key=b"k")]
        await asyncio.wait_for(producer.send("known", b"z"), 60)
        assert not any(future.done() for future in unknown)
        for future in unknown:
            with pytest.raises(MetadataTimeoutError, match=r"'who-knows'.*UNKNOWN_TOPIC_OR_PARTI"):
                await future
        assert 7.9 < time.monotonic() - began < 40


async def test_a_topic_that_appears_in_time_gets_its_records_in_order(
    strict: KafkaCluster,
) -> None:
    async with Producer(bootstrap_servers=strict.bootstrap_servers) as producer:
        values = [b"%d" % number for number in range(50)]
        futures = [producer.send("soon", value) for value in values]
        await until(
            lambda: producer.metrics()["producer-metrics"]["response-total"] >= 3,
            "the broker has said that it does not know the topic",
        )
        assert not any(future.done() for future in futures)
        await strict.create_topic("soon")
        assert [(await future).offset for future in futures] == list(range(50))
    assert await asyncio.to_thread(read, strict, "soon", 50) == values


async def test_a_topic_that_brokers_create_is_waited_for(kafka: KafkaCluster) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        async with asyncio.timeout(20):
            metadata = await producer.send("made-by-the-brokers", b"x")
    assert metadata.offset == 0


@pytest.mark.parametrize("topic", ["no spaces", "slash/slash", "t\n", "..", "t" * 250])
async def test_a_name_that_is_refused_here_is_refused_there(
    kafka: KafkaCluster, topic: str
) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        with pytest.raises(InvalidTopicError) as caught:
            producer.send(topic, b"x")
        assert repr(topic)[:50] in str(caught.value)
        assert not caught.value.retriable
    [answer] = broker_processes.metadata(kafka.brokers[0].internal_address, topic).topics
    assert answer.error_code == InvalidTopicError.code


@pytest.mark.parametrize("topic", ["...", "-", "_", "A.b-C_9", "t" * 249])
async def test_every_name_that_kafka_takes_is_taken(kafka: KafkaCluster, topic: str) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        assert (await asyncio.wait_for(producer.send(topic, b"x"), 20)).topic == topic


# --- records that brokers refuse -------------------------------------------------------------


async def test_a_record_that_the_topic_finds_too_large_fails_alone(kafka: KafkaCluster) -> None:
    topic = "small-records"
    await kafka.create_topic(topic, config={"max.message.bytes": 1000})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send(topic, b"small", partition=0)
        with pytest.raises(MessageTooLargeError, match=f"{topic}-0.*MESSAGE_TOO_LARGE") as caught:
            await producer.send(topic, bytes(5000), partition=0)
        assert isinstance(caught.value, RecordTooLargeError)
        after = await producer.send(topic, b"small again", partition=0)
    assert after.offset == 1
    assert await asyncio.to_thread(read, kafka, topic, 2) == [b"small", b"small again"]


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_a_batch_that_the_topic_finds_too_large_is_split(
    kafka: KafkaCluster, idempotent: bool, codec: Any
) -> None:
    topic = f"small-batches-{codec}-{idempotent}"
    await kafka.create_topic(topic, config={"max.message.bytes": 1000})
    values = [b"%d:" % number + randbytes(200) for number in range(50)]
    values[20:20] = [randbytes(2_000)]
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        enable_idempotence=idempotent,
        compression_type=codec,
    ) as producer:
        await producer.send(topic, b"first", partition=0)
        futures = [producer.send(topic, value, partition=0) for value in values]
        errors = await errors_of(futures)
        assert isinstance(errors.pop(20), RecordTooLargeError)
        assert errors == [None] * 50
        assert producer.metrics()["producer-metrics"]["batch-split-total"] > 0
        offsets = [future.result().offset for number, future in enumerate(futures) if number != 20]
        del values[20]
    found = await asyncio.to_thread(read, kafka, topic, 51)
    assert [found[offset] for offset in offsets] == values
    assert not idempotent or sorted(offsets) == offsets


async def test_a_timestamp_that_the_topic_does_not_take_is_named(kafka: KafkaCluster) -> None:
    topic = "young-records"
    await kafka.create_topic(topic, config={"message.timestamp.before.max.ms": 3_600_000})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send(topic, b"first")
        good = producer.send(topic, b"good")
        bad = producer.send(topic, b"bad", timestamp_ms=LONG_AGO)
        good_error, bad_error = await errors_of([good, bad])
        assert isinstance(bad_error, InvalidTimestampError)
        assert bad_error.code == 32
        # KIP-467: the rest of the batch was not written either, and is told why.
        assert isinstance(good_error, InvalidRecordError)
        assert "other records of its batch" in str(good_error)
        assert (await producer.send(topic, b"last")).offset == 1
    assert await asyncio.to_thread(read, kafka, topic, 2) == [b"first", b"last"]


async def test_records_behind_refused_ones_arrive_in_order_and_once(kafka: KafkaCluster) -> None:
    """Each refusal is a gap in the sequence numbers, with other batches in flight behind it."""
    topic, partitions, count = "gaps", 3, 600
    config = {"message.timestamp.before.max.ms": 3_600_000}
    await kafka.create_topic(topic, partitions, config=config)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, batch_size=0, linger_ms=0
    ) as producer:
        futures = [
            producer.send(
                topic,
                b"%d" % number,
                partition=number % partitions,
                timestamp_ms=LONG_AGO if number % 40 == 7 else None,
            )
            for number in range(count)
        ]
        errors = await errors_of(futures)
        last = await producer.send(topic, b"last", partition=0)
    refused = [number for number, error in enumerate(errors) if error is not None]
    assert refused == list(range(7, count, 40))
    for error in filter(None, errors):
        assert isinstance(error, InvalidTimestampError)
        assert not error.may_have_been_written
    kept = count - len(refused)
    found = await asyncio.to_thread(read, kafka, topic, kept + 1, partitions)
    assert len(found) == kept + 1
    places = {
        (sent.partition, sent.offset): number
        for number, future in enumerate(futures)
        if number not in refused
        for sent in (future.result(),)
    }
    for partition in range(partitions):
        mine = [places[place] for place in sorted(places) if place[0] == partition]
        assert mine == sorted(mine)
    assert last.offset == sum(1 for partition, _ in places if partition == 0)


async def test_a_compacted_topic_refuses_a_record_without_key(kafka: KafkaCluster) -> None:
    topic = "compacted"
    await kafka.create_topic(topic, config={"cleanup.policy": "compact"})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        with pytest.raises(InvalidRecordError, match="key") as caught:
            await producer.send(topic, b"no key")
        assert isinstance(caught.value, BrokerError)
        assert not caught.value.retriable
        assert (await producer.send(topic, b"value", key=b"key")).offset == 0
    assert await asyncio.to_thread(read, kafka, topic, 1) == [b"value"]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_the_timestamp_is_that_of_the_log(kafka: KafkaCluster, kind: str) -> None:
    topic = f"time-{kind}"
    await kafka.create_topic(topic, config={"message.timestamp.type": kind})
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        before = time.time_ns() // 1_000_000
        given = await producer.send(topic, b"x", timestamp_ms=LONG_AGO)
        now = await producer.send(topic, b"x")
        after = time.time_ns() // 1_000_000
    assert before <= now.timestamp_ms <= after
    if kind == "CreateTime":
        assert given.timestamp_ms == LONG_AGO
    else:
        assert before <= given.timestamp_ms <= after


# --- topics that change under a running producer ----------------------------------------------


async def test_added_partitions_are_noticed(strict: KafkaCluster) -> None:
    topic = "growing"
    await strict.create_topic(topic)
    admin = AdminClient({"bootstrap.servers": strict.bootstrap_servers})
    async with Producer(bootstrap_servers=strict.bootstrap_servers) as producer:
        await producer.send(topic, b"x")
        waiting = producer.send(topic, b"y", partition=2)
        await asyncio.to_thread(
            admin.create_partitions([NewPartitions(topic, 3)])[topic].result, 20
        )
        metadata = await asyncio.wait_for(waiting, 20)
        assert (metadata.partition, metadata.offset) == (2, 0)
        keys = [b"%d" % number for number in range(100)]
        futures = [producer.send(topic, b"", key=key) for key in keys]
        assert {(await future).partition for future in futures} == {0, 1, 2}


def topic_is_known(cluster: KafkaCluster, topic: str) -> bool:
    [answer] = broker_processes.metadata(cluster.brokers[0].internal_address, topic).topics
    return not answer.error_code


async def recreate(cluster: KafkaCluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 20)
    await until(lambda: not topic_is_known(cluster, topic), "the topic is deleted")
    await cluster.create_topic(topic, partitions=partitions)


@pytest.mark.parametrize("partitions", [3, 1, 5])
async def test_a_topic_made_anew_is_written_to(strict: KafkaCluster, partitions: int) -> None:
    """Its id is another one, and the broker knows nothing of the producer's sequence there."""
    topic = f"made-anew-{partitions}"
    await strict.create_topic(topic, partitions=3)
    async with Producer(bootstrap_servers=strict.bootstrap_servers) as producer:
        for number in range(30):
            await producer.send(topic, b"old", partition=number % 3)
        await recreate(strict, topic, partitions)
        values = [b"new %d" % number for number in range(60)]
        futures = [producer.send(topic, value, partition=0) for value in values]
        async with asyncio.timeout(20):
            offsets = [(await future).offset for future in futures]
        assert offsets == list(range(60))
        keyed = [producer.send(topic, b"", key=b"%d" % number) for number in range(200)]
        async with asyncio.timeout(20):
            assert {(await future).partition for future in keyed} == set(range(partitions))
    written = await asyncio.to_thread(read, strict, topic, 260, partitions)
    assert [value for value in written if value] == values
    assert len(written) == 260


async def test_records_sent_while_the_topic_is_gone_wait_for_it(strict: KafkaCluster) -> None:
    topic = "gone-for-a-while"
    await strict.create_topic(topic)
    admin = AdminClient({"bootstrap.servers": strict.bootstrap_servers})
    async with Producer(bootstrap_servers=strict.bootstrap_servers) as producer:
        await producer.send(topic, b"old")
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 20)
        await until(lambda: not topic_is_known(strict, topic), "the topic is deleted")
        values = [b"new %d" % number for number in range(20)]
        futures = [producer.send(topic, value) for value in values]
        await until(
            lambda: producer.metrics()["producer-metrics"]["record-retry-total"] >= 20,
            "the broker has refused the records",
        )
        await strict.create_topic(topic)
        async with asyncio.timeout(20):
            assert [(await future).offset for future in futures] == list(range(20))
    assert await asyncio.to_thread(read, strict, topic, 20) == values


# --- quotas ----------------------------------------------------------------------------------


async def test_a_throttled_producer_leaves_the_broker_alone(strict: KafkaCluster) -> None:
    topic, client_id = "throttled", "the-throttled-one"
    await strict.create_topic(topic)
    tool = await strict.tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", strict.bootstrap_servers, "--alter"),
        *("--entity-type", "clients", "--entity-name", client_id),
        *("--add-config", f"producer_byte_rate={QUOTA}"),
    )
    assert tool.returncode == 0, tool.stderr
    async with Producer(
        bootstrap_servers=strict.bootstrap_servers, client_id=client_id
    ) as producer:

        def metric(name: str) -> float:
            return producer.metrics()["producer-metrics"][name]

        await producer.send(topic, b"first")
        assert metric("produce-throttle-time-max") == 0
        answered: list[float] = []
        large = producer.send(topic, bytes(5 * QUOTA))
        large.add_done_callback(lambda _: answered.append(time.monotonic()))
        await large
        throttled = metric("produce-throttle-time-max") / 1000
        assert 0.5 < throttled < 20, "the broker did not throttle"
        requests = metric("request-total")
        future = producer.send(topic, b"after")
        await asyncio.wait([future], timeout=throttled / 2)
        assert not future.done()
        assert metric("request-total") == requests, "a request was sent while throttled"
        await future
        assert time.monotonic() - answered[0] > throttled - 0.1
        assert not math.isnan(metric("produce-throttle-time-avg"))
        # Had the request been sent at once, the broker would have let it lie for all this time.
        assert metric("request-latency-max") < 1000 * throttled
