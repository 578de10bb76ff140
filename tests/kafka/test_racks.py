"""Producers and readers with a rack, on brokers with racks (KIP-392)."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.config import ProducerConfig
from aioproducer.consumer import Consumer
from aioproducer.model import TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.conftest import RACKS
from tests.support.fetching import Round

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("rack", ["north", "south", "elsewhere"])
async def test_keyless_records_go_to_leaders_in_the_client_s_rack(
    kafka: KafkaCluster, rack: str
) -> None:
    topic = f"near-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(topic, 6, replication_factor=1)
    async with Producer(
        bootstrap_servers=kafka.bootstrap_servers, partitioner_rack_aware=True, client_rack=rack
    ) as producer:
        leaders = {
            info.partition: None if info.leader is None else info.leader.id
            for info in await producer.partition_infos_for(topic)
        }
        racks = {RACKS[leader] for leader in leaders.values() if leader is not None}
        assert racks == {"north", "south"}
        sent = [await producer.send(topic, bytes(20_000)) for _ in range(60)]
        found = {RACKS[leaders[each.partition] or 0] for each in sent}
        assert found == ({rack} if rack in racks else racks)


TIMEOUT = 60.0
THE_END = -1
"""The epoch of the last fetch of a session (KIP-227)."""
RECORDS = 200
SOUTH = 2
"""The only broker of its rack."""


@pytest.fixture(autouse=True)
async def _bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(TIMEOUT):
        yield


@pytest.fixture
async def place(kafka: KafkaCluster) -> TopicPartition:
    """A partition that a broker in the north leads, with a replica on each broker."""
    topic = f"closest-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(topic, 3, replication_factor=3)
    async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        infos = await producer.partition_infos_for(topic)
    [first, *_] = [
        each.partition for each in infos if each.leader and RACKS[each.leader.id] == "north"
    ]
    return TopicPartition(topic, first)


async def write(kafka: KafkaCluster, place: TopicPartition, **options: Any) -> None:
    async with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        futures = [
            producer.send(place.topic, b"%d" % number, partition=place.partition)
            for number in range(RECORDS)
        ]
        await asyncio.gather(*futures)


def record_bytes(rounds: list[Round], place: TopicPartition) -> Counter[int]:
    """The bytes of batches by the broker that they came from."""
    found: Counter[int] = Counter()
    for each in rounds:
        if place in each.fetched.partitions:
            found[each.node.id] += len(each.fetched.partitions[place].records)
    return +found


async def values(reader: Any, count: int) -> list[bytes | None]:
    records = aiter(reader)
    return [(await anext(records)).value for _ in range(count)]


EXPECTED = [b"%d" % number for number in range(RECORDS)]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_records_come_from_the_replica_in_the_client_s_rack(
    kafka: KafkaCluster, place: TopicPartition, rounds: list[Round], isolation: Any
) -> None:
    await write(kafka, place)
    async with Reader(
        place,
        bootstrap_servers=kafka.bootstrap_servers,
        client_rack="south",
        isolation_level=isolation,
    ) as reader:
        assert await values(reader, RECORDS) == EXPECTED
        await write(kafka, place)
        assert await values(reader, RECORDS) == EXPECTED
    assert set(record_bytes(rounds, place)) == {SOUTH}
    assert rounds[0].node.id != SOUTH, "the leader is asked first"
    assert rounds[0].fetched.partitions[place].preferred_read_replica == SOUTH
    last, goodbye = [each for each in rounds if each.node.id == SOUTH][-2:]
    assert last.request.session.epoch > 0, "in a session with the follower"
    assert goodbye.request.session == (last.request.session.id, THE_END)


@pytest.mark.parametrize("rack", ["north", "elsewhere", ""])
async def test_records_come_from_a_leader_without_a_closer_replica(
    kafka: KafkaCluster, place: TopicPartition, rounds: list[Round], rack: str
) -> None:
    await write(kafka, place)
    async with Reader(
        place, bootstrap_servers=kafka.bootstrap_servers, client_rack=rack, end="end"
    ) as reader:
        assert [record.value async for record in reader] == EXPECTED
    assert len(record_bytes(rounds, place)) == 1
    assert SOUTH not in record_bytes(rounds, place)


async def test_a_configuration_that_is_shared_with_a_producer_has_the_rack(
    kafka: KafkaCluster, place: TopicPartition, rounds: list[Round]
) -> None:
    config = ProducerConfig(
        bootstrap_servers=kafka.bootstrap_servers, client_rack="south", partitioner_rack_aware=True
    )
    await write(kafka, place)
    async with Reader(place, config, end="end") as reader:
        assert [record.value async for record in reader] == EXPECTED
    assert set(record_bytes(rounds, place)) == {SOUTH}


async def test_a_consumer_has_a_rack_as_well(
    kafka: KafkaCluster, place: TopicPartition, rounds: list[Round]
) -> None:
    await write(kafka, place)
    async with Consumer(
        place.topic,
        group_id=place.topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        client_rack="south",
    ) as consumer:
        assert await values(consumer, RECORDS) == EXPECTED
    assert set(record_bytes(rounds, place)) == {SOUTH}


async def test_an_offset_that_the_log_lacks_is_looked_up_at_the_leader(
    kafka: KafkaCluster, place: TopicPartition, rounds: list[Round]
) -> None:
    await write(kafka, place)
    async with Reader(
        place,
        bootstrap_servers=kafka.bootstrap_servers,
        client_rack="south",
        auto_offset_reset="earliest",
    ) as reader:
        assert await values(reader, RECORDS) == EXPECTED
        await reader.seek(place, 10_000)
        assert await values(reader, RECORDS) == EXPECTED
    brokers = [each.node.id for each in rounds]
    assert brokers[0] != SOUTH
    followed = brokers.index(SOUTH)
    assert brokers[0] in brokers[followed:], "the follower's error leads back to the leader"
