"""An unclean election takes records away that a reader has returned (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.errors import LogTruncatedError
from aioproducer.model import TopicPartition
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = "truncated"
PLACE = TopicPartition(TOPIC, 0)


@pytest.fixture
async def cluster(kafka_distribution: KafkaDistribution) -> AsyncIterator[KafkaCluster]:
    async with KafkaCluster(
        brokers=3,
        config={"min.insync.replicas": 1, "unclean.leader.election.enable": "true"},
    ) as cluster:
        yield cluster


async def in_sync(admin: Admin, replicas: set[int]) -> bool:
    """True if the partition has exactly these replicas in sync."""
    found = await admin.describe_topics(TOPIC)
    return set(found[TOPIC].partitions[0].in_sync_replicas) == replicas


async def test_lost_records_are_an_error_until_the_application_seeks(
    cluster: KafkaCluster,
) -> None:
    servers = cluster.bootstrap_servers
    async with asyncio.timeout(180), Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(TOPIC, assignment={0: [1, 2]})
        await until(lambda: in_sync(admin, {1, 2}), "both replicas are in sync", 60)
        async with (
            Producer(bootstrap_servers=servers, acks="1") as producer,
            Reader(PLACE, bootstrap_servers=servers, request_timeout_ms=3_000) as reader,
        ):
            records = aiter(reader)
            for number in range(10):
                await producer.send(TOPIC, b"kept %d" % number, partition=0)
            assert [(await anext(records)).offset for _ in range(10)] == list(range(10))
            await cluster.stop_broker(2)
            await until(lambda: in_sync(admin, {1}), "the follower has left", 60)
            for number in range(5):
                await producer.send(TOPIC, b"lost %d" % number, partition=0)
            assert [(await anext(records)).offset for _ in range(5)] == list(range(10, 15))
            await cluster.kill_broker(1)
            await cluster.start_broker(2)
            with pytest.raises(LogTruncatedError, match=r"truncated-0: .* to offset 10, .* 14 had"):
                await anext(records)
            await reader.seek(PLACE, 10)
            await producer.send(TOPIC, b"new", partition=0)
            record = await anext(records)
            assert (record.offset, record.value) == (10, b"new")
