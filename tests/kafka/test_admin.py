"""An Admin's work on real brokers, as another client (confluent-kafka's) sees it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from aioproducer import OffsetAndMetadata, Producer, TopicPartition
from aioproducer.admin import (
    Admin,
    Append,
    NewTopic,
    Subtract,
    TopicDescription,
    assign_replicas,
)
from aioproducer.errors import (
    BrokerNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.conftest import RACKS
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TIMEOUT = 60


@pytest.fixture
async def admin(kafka: KafkaCluster) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=kafka.bootstrap_servers) as started:
        yield started


@pytest.fixture
def other(kafka: KafkaCluster) -> AdminClient:
    """Another client's."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def topic() -> str:
    return f"admin-{uuid.uuid4().hex[:8]}"


async def seen(other: AdminClient, topic: str, partitions: int) -> dict[int, tuple[int, ...]]:
    """The replicas of a topic as another client sees them, once it sees all partitions."""
    found: dict[int, tuple[int, ...]] = {}

    async def all_there() -> bool:
        described = await asyncio.to_thread(other.list_topics, topic, TIMEOUT)
        known = described.topics[topic].partitions
        found.update({number: tuple(each.replicas) for number, each in known.items()})
        return len(known) == partitions

    await until(all_there, f"{partitions} partitions of {topic}")
    return found


def replicas_of(topic: TopicDescription) -> dict[int, tuple[int, ...]]:
    return {each.partition: each.replicas for each in topic.partitions}


# --- topics --------------------------------------------------------------------------------------


async def test_an_assignment_on_racks_is_what_another_client_reads(
    admin: Admin, other: AdminClient, topic: str
) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.racks == RACKS
    assigned = assign_replicas(RACKS, 7, 2, racks=cluster.racks, random=Random(7))
    assert {frozenset(RACKS[each] for each in brokers) for brokers in assigned.values()} == {
        frozenset(RACKS.values())
    }
    created = await admin.create_topic(topic, assignment=assigned)
    assert (created.partitions, created.replication_factor) == (7, 2)
    assert await seen(other, topic, 7) == assigned
    described = await admin.wait_for_leaders(topic)
    assert replicas_of(described[topic]) == assigned
    for each in described[topic].partitions:
        assert each.leader == each.replicas[0], "the preferred leader"
        assert set(each.in_sync_replicas) == set(each.replicas)
        assert each.offline_replicas == ()
    assert described[topic].topic_id == created.topic_id


async def test_partitions_are_added(admin: Admin, other: AdminClient, topic: str) -> None:
    await admin.create_topic(topic, 2, 1)
    await admin.add_partitions(topic, 3)
    added = assign_replicas(sorted(RACKS), 3, 1, start_partition=3)
    await admin.add_partitions(topic, 6, assignment=added, validate_only=True)
    await admin.add_partitions(topic, 6, assignment=added)
    found = replicas_of((await admin.describe_topics(topic))[topic])
    assert len(found) == 6
    assert {number: found[number] for number in added} == added
    assert await seen(other, topic, 6) == found
    with pytest.raises(InvalidPartitionsError, match=f"topic '{topic}': INVALID_PARTITIONS"):
        await admin.add_partitions(topic, 6)


async def test_the_defaults_of_the_brokers_and_a_dry_run(
    admin: Admin, other: AdminClient, topic: str
) -> None:
    planned = await admin.create_topic(topic, configs={"retention.ms": 7}, validate_only=True)
    assert (planned.partitions, planned.replication_factor) == (1, 1)
    assert planned.configs is not None
    assert planned.configs["retention.ms"][:3] == ("retention.ms", "7", "DYNAMIC_TOPIC_CONFIG")
    assert topic not in await asyncio.to_thread(lambda: other.list_topics(timeout=TIMEOUT).topics)
    await admin.create_topic(topic)
    assert len(await seen(other, topic, 1)) == 1


async def test_topics_come_and_go(admin: Admin, other: AdminClient, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    await admin.create_topics(NewTopic(name, 1, 1) for name in names)

    async def listed() -> bool:  # a broker learns of a topic a moment later
        return set(names) <= set(await admin.list_topics())

    await until(listed, "all topics")
    await admin.delete_topics(names[:2])

    async def gone() -> bool:
        described = await asyncio.to_thread(other.list_topics, None, TIMEOUT)
        return not set(names[:2]) & described.topics.keys()

    await until(gone, "no topic")
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{names[0]}'") as caught:
        await admin.delete_topics(names)
    assert caught.value.__notes__[-1] == f"succeeded: topic '{names[2]}'"


async def test_refused_topics(admin: Admin, topic: str) -> None:
    await admin.create_topic(topic, 1, 1)
    with pytest.raises(TopicAlreadyExistsError, match=f"topic '{topic}'"):
        await admin.create_topic(topic, 1, 1)
    new = f"{topic}-new"
    with pytest.raises(InvalidReplicationFactorError, match=f"topic '{new}'"):
        await admin.create_topic(new, 1, 4)
    with pytest.raises(InvalidReplicaAssignmentError, match=f"topic '{new}'"):
        await admin.create_topic(new, assignment={0: [9]})
    with pytest.raises(InvalidConfigError, match=f"topic '{new}'"):
        await admin.create_topic(new, 1, 1, configs={"no.such.thing": 1})
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{new}'"):
        await admin.describe_topics([topic, new])
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{new}'"):
        await admin.add_partitions(new, 3)


# --- configurations ------------------------------------------------------------------------------


async def test_configurations_as_another_client_reads_them(
    admin: Admin, other: AdminClient, topic: str
) -> None:
    await admin.create_topic(topic, 1, 1, configs={"retention.ms": 8e6, "segment.ms": 9_000})
    changes: dict[str, Any] = {"retention.ms": None, "cleanup.policy": Append("compact")}
    await admin.alter_configs({topic: {**changes, "min.insync.replicas": 2}}, validate_only=True)
    whole = {"max.message.bytes": 2.0**20, "min.cleanable.dirty.ratio": 1.0}
    await admin.alter_configs({topic: {**whole, "max.compaction.lag.ms": 36e5}}, validate_only=True)
    await admin.alter_configs({topic: changes})

    def read() -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (future,) = other.describe_configs([resource]).values()
        return {name: entry.value for name, entry in future.result(TIMEOUT).items()}

    async def settled() -> bool:
        told = await asyncio.to_thread(read)
        return told["cleanup.policy"] == "delete,compact"

    await until(settled, "the new policy")
    described = (await admin.describe_topics(topic, configs=True))[topic].configs
    assert described is not None
    assert {name: entry.value for name, entry in described.items()} == await asyncio.to_thread(read)
    assert described["segment.ms"].source == "DYNAMIC_TOPIC_CONFIG"
    assert described["min.insync.replicas"].value == "1"
    assert described["max.message.bytes"].is_default
    await admin.alter_configs({topic: {"cleanup.policy": Subtract("compact")}})

    async def back() -> bool:
        found = await admin.describe_configs(topic, names="cleanup.policy")
        return [entry.value for entry in found[topic].values()] == ["delete"]

    await until(back, "the old policy")
    with pytest.raises(InvalidConfigError, match=f"topic '{topic}'"):
        await admin.alter_configs({topic: {"retention.ms": "soon"}})


async def test_the_configuration_of_brokers(admin: Admin) -> None:
    found = await admin.describe_configs([1, 2], names=["broker.rack", "node.id", "no.such"])
    assert {broker: entries["broker.rack"].value for broker, entries in found.items()} == {
        1: RACKS[1],
        2: RACKS[2],
    }
    assert found[2]["node.id"].value == "2"
    assert found[1]["broker.rack"].read_only
    with pytest.raises(BrokerNotAvailableError, match=r"broker 9: .*\[1, 2, 3\]"):
        await admin.describe_configs([9])


# --- records -------------------------------------------------------------------------------------


async def test_records_are_deleted(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    await admin.create_topic(topic, 3, 1)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await asyncio.gather(*(producer.send(topic, b"%d" % n, partition=n % 3) for n in range(30)))
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert await admin.delete_records({zero: 4, one: -1}) == {zero: 4, one: 10}

    def ends() -> list[tuple[int, int]]:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic})
        try:
            return [consumer.get_watermark_offsets(Place(topic, n), TIMEOUT) for n in range(3)]
        finally:
            consumer.close()

    assert await asyncio.to_thread(ends) == [(4, 10), (10, 10), (0, 10)]
    with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0: .*ends before"):
        await admin.delete_records({zero: 11})


# --- groups --------------------------------------------------------------------------------------


@contextmanager
def consumer_of(kafka: KafkaCluster, group: str, **options: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "client.id": "reader-1",
            "enable.auto.commit": False,
            **options,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_its_members_and_its_lag(
    admin: Admin, kafka: KafkaCluster, topic: str, protocol: str
) -> None:
    await admin.create_topic(topic, 3, 1)
    await admin.wait_for_leaders(topic)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await asyncio.gather(*(producer.send(topic, b"%d" % n, partition=n % 3) for n in range(30)))
    group = f"group-{topic}"
    with consumer_of(kafka, group, **{"group.protocol": protocol}) as consumer:
        await asyncio.to_thread(consumer.subscribe, [topic])

        async def assigned() -> bool:
            await asyncio.to_thread(consumer.poll, 0.2)
            return len(consumer.assignment()) == 3

        await until(assigned, "three partitions", TIMEOUT)
        offsets = [Place(topic, 0, 4), Place(topic, 1, 10)]
        await asyncio.to_thread(consumer.commit, offsets=offsets, asynchronous=False)

        lag = await admin.group_lag(group)
        places = [TopicPartition(topic, number) for number in range(2)]
        assert [(each, lag[each].committed, lag[each].end, lag[each].lag) for each in lag] == [
            (places[0], 4, 10, 6),
            (places[1], 10, 10, 0),
        ]

        async def told() -> bool:
            """The assignment of a newer protocol is known once the member has taken it."""
            described = (await admin.describe_groups(group))[group]
            assert (described.type, described.protocol_type) == (protocol, "consumer")
            (member,) = described.members
            assert member.client_id == "reader-1"
            await asyncio.to_thread(consumer.poll, 0.1)
            return described.state == "Stable" and len(member.partitions or ()) == 3

        await until(told, "three partitions of the member", TIMEOUT)
        (listed,) = [each for each in await admin.list_groups() if each.group_id == group]
        assert listed == (group, "consumer", "Stable", protocol)
    await until(lambda: _is_empty(admin, group), "no member")
    assert (await admin.group_lag(group))[places[0]].lag == 6


async def _is_empty(admin: Admin, group: str) -> bool:
    described = (await admin.describe_groups(group))[group]
    return (described.state, described.members) == ("Empty", ())


async def test_the_lag_is_that_of_another_client(
    admin: Admin, other: AdminClient, kafka: KafkaCluster, topic: str
) -> None:
    """Offsets that another client sets without a member, and one of a topic that is gone."""
    gone = f"{topic}-gone"
    await admin.create_topics([NewTopic(topic, 2, 1), NewTopic(gone, 1, 1)])
    group = f"group-{topic}"
    wanted = [Place(topic, 0, 0), Place(topic, 1, 3), Place(gone, 0, 2)]

    def alter() -> list[Place]:
        request = ConsumerGroupTopicPartitions(group, wanted)
        (future,) = other.alter_consumer_group_offsets([request]).values()
        found: list[Place] = future.result(TIMEOUT).topic_partitions
        return found

    async def altered() -> bool:
        try:
            return not [each for each in await asyncio.to_thread(alter) if each.error]
        except KafkaException:
            return False  # the brokers do not know the topics yet

    await until(altered, "offsets")
    lag = await admin.group_lag(group)
    assert {where: each.committed for where, each in lag.items()} == {
        TopicPartition(each.topic, each.partition): each.offset for each in wanted
    }
    assert lag[TopicPartition(topic, 1)].lag == 0, "the log is shorter than the offset"
    assert set(await admin.group_lag(group, topics=topic)) == {
        TopicPartition(topic, number) for number in range(2)
    }


async def test_the_offsets_of_a_group_as_another_client_reads_them(
    admin: Admin, kafka: KafkaCluster, topic: str
) -> None:
    await admin.create_topic(topic, 3, 1)
    await admin.wait_for_leaders(topic)
    group = f"group-{topic}"
    zero, one, two = (TopicPartition(topic, number) for number in range(3))
    await admin.alter_group_offsets(group, {zero: OffsetAndMetadata(4, "note", 0), one: 7, two: 9})
    await admin.delete_group_offsets(group, [two])
    with pytest.raises(UnknownTopicOrPartitionError, match=f"'{group}', {topic}-3: ") as caught:
        await admin.alter_group_offsets(group, {TopicPartition(topic, 3): 1, one: 8})
    assert caught.value.__notes__ == [f"succeeded: group '{group}', {topic}-1"]

    # confluent-kafka's reading of metadata goes on behind its end
    other = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await other.start()
    read = await other.list_consumer_group_offsets(group)
    await other.close()
    expected = {zero: OffsetAndMetadata(4, "note", 0), one: OffsetAndMetadata(8)}
    assert {tuple(where): (at.offset, at.metadata) for where, at in read.items()} == {
        tuple(where): at[:2] for where, at in expected.items()
    }
    assert await admin.group_offsets(group) == expected
    await admin.delete_groups(group)
    with pytest.raises(GroupIdNotFoundError, match=f"'{group}'"):
        await admin.group_offsets(group)
    for call in (admin.delete_groups(group), admin.delete_group_offsets(group, [zero])):
        with pytest.raises(GroupIdNotFoundError, match=f"'{group}'"):
            await call


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_members_keeps_its_offsets(
    admin: Admin, kafka: KafkaCluster, topic: str, protocol: str
) -> None:
    await admin.create_topic(topic, 2, 1)
    await admin.wait_for_leaders(topic)
    group = f"group-{topic}"
    zero, one = (TopicPartition(topic, number) for number in range(2))
    await admin.alter_group_offsets(group, {zero: 0, one: 0})
    with consumer_of(kafka, group, **{"group.protocol": protocol}) as consumer:
        await asyncio.to_thread(consumer.subscribe, [topic])

        async def assigned() -> bool:
            await asyncio.to_thread(consumer.poll, 0.2)
            return len(consumer.assignment()) == 2

        await until(assigned, "two partitions", TIMEOUT)
        with pytest.raises(UnknownMemberIdError, match=rf"'{group}': .* has members.*stop them"):
            await admin.alter_group_offsets(group, {zero: 1, one: 1})
        with pytest.raises(GroupSubscribedToTopicError, match=f"'{group}', {topic}-0: .*stop them"):
            await admin.delete_group_offsets(group, [zero])
        with pytest.raises(NonEmptyGroupError, match=f"'{group}': "):
            await admin.delete_groups(group)
    await until(lambda: _is_empty(admin, group), "no member")
    assert {at.offset for at in (await admin.group_offsets(group)).values()} == {0}
    await admin.delete_groups(group)


async def test_offsets_in_the_log(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    await admin.create_topic(topic, 1, 1)
    await admin.wait_for_leaders(topic)
    zero = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for second in range(10):
            await producer.send(topic, b"x", timestamp_ms=1_700_000_000_000 + second * 1000)
    await admin.delete_records({zero: 2})
    assert await admin.list_offsets({zero: "beginning"}) == {zero: 2}
    assert await admin.list_offsets({zero: "end"}) == {zero: 10}
    for since, offset in ((-5.0, 2), (6.5, 7), (9.0, 9), (10.0, 10)):
        at = datetime.fromtimestamp(1_700_000_000 + since, UTC)
        assert await admin.list_offsets({zero: at}) == {zero: offset}


async def test_a_group_that_is_not_there(admin: Admin, topic: str) -> None:
    for call in (admin.describe_groups([topic]), admin.group_lag(topic)):
        with pytest.raises(GroupIdNotFoundError, match=f"group '{topic}'"):
            await call


# --- the cluster ---------------------------------------------------------------------------------


async def test_the_cluster(admin: Admin, other: AdminClient) -> None:
    found = await admin.describe_cluster(versions=True)
    told = await asyncio.to_thread(lambda: other.describe_cluster().result(TIMEOUT))
    assert found.cluster_id == told.cluster_id
    assert [(each.id, each.host, each.port, each.rack) for each in found.brokers] == [
        (each.id, each.host, each.port, each.rack)
        for each in sorted(told.nodes, key=lambda node: node.id)
    ]
    assert found.controller in RACKS
    assert found.features["metadata.version"] >= 20
    for broker in found.brokers:
        assert broker.versions is not None
        assert broker.versions["CREATE_TOPICS"][1] >= 7
