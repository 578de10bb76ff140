"""Consumers of a group before brokers of each release."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import Producer
from aioproducer.consumer import Consumer
from aioproducer.errors import UnsupportedVersionError
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

PARTITIONS = 4


def consumer(cluster: KafkaCluster, topic: str, protocol: str) -> Consumer:
    return Consumer(
        topic,
        group_id=topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_protocol=protocol,  # type: ignore[arg-type]
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        session_timeout_ms=10_000,
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_share_partitions_and_go_on_where_they_have_committed(
    cluster: KafkaCluster, protocol: str
) -> None:
    topic = f"consumed-{protocol}"
    await cluster.create_topic(topic, PARTITIONS)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
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
    async with consumer(cluster, topic, protocol) as last:
        records = aiter(last)
        read += [await asyncio.wait_for(anext(records), 20) for _ in range(20)]
    assert sorted(int(record.value or b"") for record in read) == list(range(40))
