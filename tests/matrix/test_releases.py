"""Every kind of sending, reading and administration works with brokers of each release."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from aioproducer import OffsetAndMetadata, Producer, ProducerError, TopicPartition
from aioproducer import TopicPartition as Place
from aioproducer.admin import Admin, PartitionLag
from aioproducer.consumer import Consumer
from aioproducer.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.matrix.conftest import TOO_OLD, of_release
from tests.matrix.reading import TIMEOUT, Read, read, until_read, values
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


SEND_KEYS = Path(__file__).parents[1] / "kafka" / "java" / "SendKeys.java"
CODECS: tuple[Any, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: tuple[Any, ...] = (0, 1, "all")
NOON = 1_700_000_000_000
PARTITIONS = 3
FIRST_WITH_STABLE_OFFSETS = (2, 5)
FIRST_WITH_EPOCHS = "4.0.2"


def release_of(cluster: KafkaCluster) -> tuple[int, ...]:
    return tuple(int(number) for number in cluster.version.split("."))


def records_of_every_shape() -> list[Read]:
    return [
        Read(NOON, b"k", b"v", ()),
        Read(NOON + 1, None, None, ()),
        Read(NOON - 86_400_000, b"", b"", (("", b"no name"), ("null", None), ("empty", b""))),
        Read(NOON + 2, b"tombstone", None, (("again", b"1"), ("again", b"2"))),
        Read(NOON + 3, bytes(range(256)), "Grüße, 你好, 🎈".encode(), (("größe", b"\xff"),)),
        *[Read(NOON + n, b"k%d" % n, b"x" * n, (("n", b"%d" % n),)) for n in range(0, 2_000, 40)],
        Read(NOON + 4, None, b"all work and no play " * 40_000, ()),
    ]


async def test_records_are_read_as_they_were_sent_in_every_codec(cluster: KafkaCluster) -> None:
    sent = records_of_every_shape()
    for codec in CODECS:
        topic = f"codec-{codec}"
        await cluster.create_topic(topic)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, compression_type=codec
        ) as producer:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in sent
            ]
            assert [(await future).offset for future in futures] == list(range(len(sent)))
        assert await read(cluster.bootstrap_servers, topic) == [sent], codec


async def test_every_level_of_acks(cluster: KafkaCluster) -> None:
    for acks in ACKS:
        topic = f"acks-{acks}"
        await cluster.create_topic(topic)
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, acks=acks, enable_idempotence=False
        ) as producer:
            futures = [producer.send(topic, b"%d" % number) for number in range(100)]
            offsets = [(await future).offset for future in futures]
        assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
        logs = await until_read(cluster.bootstrap_servers, topic, lambda logs: len(logs[0]) >= 100)
        assert values(logs) == [b"%d" % number for number in range(100)]


async def test_idempotent_records_are_there_once_and_in_order(cluster: KafkaCluster) -> None:
    """In many small batches, in the same and in a new epoch of the producer."""
    topic = "idempotent"
    await cluster.create_topic(topic, PARTITIONS)
    for begin in (0, 3_000):
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, batch_size=1_000, linger_ms=0
        ) as producer:
            futures = [
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                for number in range(begin, begin + 3_000)
            ]
            assert [(await future).offset for future in futures] == [
                number // PARTITIONS for number in range(begin, begin + 3_000)
            ]
    assert [
        [record.value for record in log] for log in await read(cluster.bootstrap_servers, topic)
    ] == [
        [b"%d" % number for number in range(partition, 6_000, PARTITIONS)]
        for partition in range(PARTITIONS)
    ]


async def test_transactions_are_visible_as_a_whole_or_not_at_all(cluster: KafkaCluster) -> None:
    topic = "transactional"
    await cluster.create_topic(topic, PARTITIONS)
    places = [Place(topic, partition) for partition in range(PARTITIONS)]
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic
    ) as producer:
        for number in range(6):
            await producer.begin_transaction()
            for place in places:
                producer.send(topic, b"%d" % number, partition=place.partition)
            await producer.send_offsets_to_transaction(
                {places[0]: OffsetAndMetadata(number, f"{number}")}, topic
            )
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        if release_of(cluster) < FIRST_WITH_STABLE_OFFSETS:
            with pytest.raises(UnsupportedVersionError, match="OFFSET_FETCH"):
                await producer.committed_offsets(topic, places)
        else:
            found = await producer.committed_offsets(topic, places)
            assert found == {places[0]: OffsetAndMetadata(4, "4")}
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic
        ) as successor:
            with pytest.raises(ProducerError, match="close the producer"):
                async with producer.transaction():
                    producer.send(topic, b"zombie", partition=0)
            async with successor.transaction():
                successor.send(topic, b"last", partition=0)
    expected = [b"0", b"2", b"4"]
    logs = await until_read(cluster.bootstrap_servers, topic, lambda logs: len(values(logs)) >= 10)
    assert [[record.value for record in log] for log in logs] == [
        [*expected, b"last"],
        expected,
        expected,
    ]
    group = ConfluentConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    [committed] = await asyncio.to_thread(group.committed, [ConfluentPartition(topic, 0)], TIMEOUT)
    group.close()
    assert committed.offset == 4


async def test_keys_go_where_java_sends_them(cluster: KafkaCluster) -> None:
    """With the Java client of the same release."""
    keys = [b"%d" % number for number in range(1_000)] + [bytes(n) for n in range(1, 20)]
    topic = "keys"
    await cluster.create_topic(topic, 7)
    java = await cluster.tool(
        str(SEND_KEYS),
        *(cluster.bootstrap_servers, topic),
        input="".join(f"{key.hex()}\n" for key in keys),
    )
    assert java.returncode == 0, java.stderr
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        futures = [producer.send(topic, b"", key=key) for key in keys]
        ours = [(await future).partition for future in futures]
    assert ours == [int(line) for line in java.stdout.split()]
    assert set(ours) == set(range(7))


async def test_a_topic_is_made_when_it_is_sent_to(cluster: KafkaCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sent = await producer.send("made-on-demand", b"v")
        assert (sent.partition, sent.offset) == (0, 0)
    assert values(await read(cluster.bootstrap_servers, "made-on-demand")) == [b"v"]


@pytest.mark.parametrize(
    "cluster", [of_release(each) for each in ("2.1.1", "2.8.2")], indirect=True
)
async def test_a_topic_of_an_old_message_format_takes_plain_records(cluster: KafkaCluster) -> None:
    topic = "old-format"
    await cluster.create_topic(topic, config={"message.format.version": "0.10.2"})
    servers = cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(UnsupportedForMessageFormatError, match="enable_idempotence=False"):
            await producer.send(topic, b"refused")
    async with Producer(bootstrap_servers=servers, enable_idempotence=False) as producer:
        assert (await producer.send(topic, b"v", key=b"k", timestamp_ms=NOON)).offset == 0
    assert await read(cluster.bootstrap_servers, topic) == [[Read(NOON, b"k", b"v", ())]]


@pytest.mark.matrix
@pytest.mark.parametrize("cluster", [TOO_OLD], indirect=True)
async def test_an_older_broker_is_refused_with_what_is_needed(cluster: KafkaCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(UnsupportedVersionError, match=r"PRODUCE.*Kafka 2\.1 or later"):
            await producer.send("t", b"v")


ADMIN_TOPIC = "made-by-admin"
FIRST_WITH_DEFAULTS, FIRST_WITH_CHANGES, FIRST_WITH_OFFSETS = (2, 4), (2, 3), (2, 5)
FIRST_WITH_DELETED_OFFSETS = (2, 4)


@contextlib.contextmanager
def works_since(cluster: KafkaCluster, release: tuple[int, ...]) -> Iterator[None]:
    """Older brokers can't do it, and the error says so."""
    if release_of(cluster) >= release:
        yield
    else:
        with pytest.raises(UnsupportedVersionError):
            yield


async def test_topics_records_configurations_and_groups(cluster: KafkaCluster) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic(ADMIN_TOPIC, 2, 1, configs={"retention.ms": 7_000_000})
        with pytest.raises(TopicAlreadyExistsError, match=ADMIN_TOPIC):
            await admin.create_topic(ADMIN_TOPIC, 2, 1)
        with works_since(cluster, FIRST_WITH_DEFAULTS):
            await admin.create_topic(f"{ADMIN_TOPIC}-by-default")
        await admin.add_partitions(ADMIN_TOPIC, 3, assignment={2: [1]})
        with pytest.raises(InvalidPartitionsError, match=ADMIN_TOPIC):
            await admin.add_partitions(ADMIN_TOPIC, 2)
        described = (await admin.wait_for_leaders(ADMIN_TOPIC))[ADMIN_TOPIC]
        assert [each.leader for each in described.partitions] == [1, 1, 1]
        with works_since(cluster, FIRST_WITH_CHANGES):
            await admin.alter_configs({ADMIN_TOPIC: {"retention.ms": 9_000_000}})
        configs = (await admin.describe_configs([ADMIN_TOPIC, 1], names=["retention.ms"]))[
            ADMIN_TOPIC
        ]
        assert configs["retention.ms"].value in ("7000000", "9000000")
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await asyncio.gather(
                *(producer.send(ADMIN_TOPIC, b"x", partition=1) for _ in range(10))
            )
        one = TopicPartition(ADMIN_TOPIC, 1)
        assert await admin.delete_records({one: 4}) == {one: 4}
        with pytest.raises(GroupIdNotFoundError, match="nobody"):
            await admin.describe_groups("nobody")
        await admin.list_groups()
        found = await admin.describe_cluster(versions=True)
        assert [each.id for each in found.brokers] == [1]
        assert found.controller == 1


async def _lag_is(admin: Admin, group: str, lag: dict[TopicPartition, PartitionLag]) -> bool:
    return await admin.group_lag(group) == lag


async def test_the_lag_of_a_group(cluster: KafkaCluster) -> None:
    """The offsets are a transaction's."""
    topic, group = "lagging", "laggards"
    place = TopicPartition(topic, 0)
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic(topic, 1, 1)
        async with (
            Producer(
                bootstrap_servers=cluster.bootstrap_servers, transactional_id="laggards"
            ) as producer,
            producer.transaction(),
        ):
            for _ in range(10):
                producer.send(topic, b"x")
            await producer.send_offsets_to_transaction({place: 4}, group)
        with works_since(cluster, FIRST_WITH_OFFSETS):
            # The transaction's end is confirmed a moment before its markers are written.
            await until(lambda: _lag_is(admin, group, {place: PartitionLag(4, 11)}))
        described = (await admin.describe_groups(group))[group]
        assert (described.state, described.members) == ("Empty", ())
        assert group in [each.group_id for each in await admin.list_groups()]
        assert await admin.list_offsets({place: "end"}) == {place: 11}
        with works_since(cluster, FIRST_WITH_DELETED_OFFSETS):
            await admin.delete_group_offsets(group, [place])  # before Kafka 4 the group is gone
        await admin.alter_group_offsets(group, {place: OffsetAndMetadata(7, "note")})
        with works_since(cluster, FIRST_WITH_OFFSETS):
            assert (await admin.group_offsets(group))[place][:2] == (7, "note")
        await admin.delete_groups(group)
        assert group not in [each.group_id for each in await admin.list_groups()]
        await admin.delete_topics(topic)
        with pytest.raises(UnknownTopicOrPartitionError, match=topic):
            await admin.delete_topics(topic)


READER_TOPIC = "read-by-reader"


async def test_records_are_read_with_and_without_transactions(cluster: KafkaCluster) -> None:
    await cluster.create_topic(READER_TOPIC, 2)
    servers = cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id=READER_TOPIC) as producer:
        async with producer.transaction():
            for number in range(100):
                producer.send(
                    READER_TOPIC, b"%d" % number, partition=number % 2, headers={"h": b"v"}
                )
        await producer.begin_transaction()
        await producer.send(READER_TOPIC, b"aborted", partition=0)
        await producer.abort_transaction()
    async with Reader(READER_TOPIC, bootstrap_servers=servers, end="end") as reader:
        found = [record async for record in reader]
        assert len(found) == 101
        assert all(record.headers == (("h", b"v"),) for record in found[:50])
    async with Reader(
        READER_TOPIC, bootstrap_servers=servers, isolation_level="read_committed"
    ) as reader:
        records = aiter(reader)
        values = {(await anext(records)).value for _ in range(100)}
    assert values == {b"%d" % number for number in range(100)}


@pytest.mark.parametrize("cluster", [of_release(FIRST_WITH_EPOCHS)], indirect=True)
async def test_offsets_of_a_topic_are_not_those_of_its_successor(cluster: KafkaCluster) -> None:
    """Its coordinators speak KIP-848, and take commits by the names of topics."""
    topic, values = "recreated", list[bytes | None]()
    await cluster.create_topic(topic)
    servers = cluster.bootstrap_servers

    async def collect() -> None:
        async for record in reader:
            values.append(record.value)

    reader = Consumer(
        topic,
        group_id=topic,
        bootstrap_servers=servers,
        group_protocol="consumer",
        auto_offset_reset="latest",
        auto_commit_interval_ms=600_000,
    )
    async with reader, Admin(bootstrap_servers=servers) as admin:
        reading = asyncio.create_task(collect())
        await until(lambda: bool(reader.positions))
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(30):
                producer.send(topic, b"former %d" % number)
            await producer.flush()
        await until(lambda: len(values) == 30)
        reader.pause(Place(topic, 0))  # no fetch tells it
        await admin.delete_topics(topic)
        await until(lambda: _is_gone(admin, topic))
        await cluster.create_topic(topic)
        expected = [b"%d" % number for number in range(50)]
        async with Producer(bootstrap_servers=servers) as producer:
            for value in expected:
                producer.send(topic, value)
            await producer.flush()
        await until(lambda: set(values[30:]) == set(expected))
        reading.cancel()


async def _is_gone(admin: Admin, topic: str) -> bool:
    return topic not in await admin.list_topics()


GROUP_PARTITIONS = 4


def consumer(cluster: KafkaCluster, topic: str, protocol: str | None) -> Consumer:
    quick = {} if protocol is None else {"heartbeat_interval_ms": 500, "session_timeout_ms": 10_000}
    return Consumer(
        topic,
        group_id=topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_protocol=protocol,  # type: ignore[arg-type]
        auto_offset_reset="earliest",
        **quick,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer", None])
async def test_members_share_partitions_and_go_on_where_they_have_committed(
    cluster: KafkaCluster, protocol: str | None
) -> None:
    topic = f"consumed-{protocol}"
    await cluster.create_topic(topic, GROUP_PARTITIONS)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % GROUP_PARTITIONS)
        await producer.flush()
    old = int(cluster.version.split(".")[0]) < 4
    async with consumer(cluster, topic, protocol) as first:
        records = aiter(first)
        if old and protocol == "consumer":
            with pytest.raises(UnsupportedVersionError, match=r"needs Kafka 4\.0: use 'classic'"):
                await anext(records)
            return
        read = [await asyncio.wait_for(anext(records), 20) for _ in range(20)]
        await first.commit()
        async with consumer(cluster, topic, protocol) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 2)
            used = protocol or ("classic" if old else "consumer")
            assert first.health().group_protocol == second.health().group_protocol == used
    async with consumer(cluster, topic, protocol) as last:
        records = aiter(last)
        read += [await asyncio.wait_for(anext(records), 20) for _ in range(20)]
    assert sorted(int(record.value or b"") for record in read) == list(range(40))
