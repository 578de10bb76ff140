"""Transactional producers, and what other clients see of what they write (confluent-kafka's)."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from aioproducer import Producer
from aioproducer.testing.kafka_cluster import KafkaCluster, broker_processes
from benchmarks.chaos.transactions.read_back import Place, read_to_end
from tests.support.waiting import until

Isolation = Literal["read_committed", "read_uncommitted"]

older_protocol_in_soak = pytest.mark.parametrize(
    "protocol",
    [pytest.param(1, id="protocol-1", marks=pytest.mark.soak), pytest.param(2, id="protocol-2")],
    indirect=True,
)
"""For tests that take a minute."""

TIMEOUT = 30.0


async def topics(cluster: KafkaCluster, *names: str, partitions: int = 3) -> None:
    for name in names:
        await cluster.create_topic(name, partitions, replication_factor=3)


def producer_on(cluster: KafkaCluster, transactional_id: str, **options: Any) -> Producer:
    return Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=transactional_id, **options
    )


async def committed(cluster: KafkaCluster, *topics: str) -> list[bytes]:
    """The values that are visible in the end: no transaction is open there any more. Sorted."""
    await until(lambda: nothing_is_open(cluster, *topics), f"transactions in {topics} have ended")
    return await visible(cluster, *topics)


async def visible(
    cluster: KafkaCluster, *topics: str, isolation: Isolation = "read_committed"
) -> list[bytes]:
    """The values that are visible at this moment, sorted."""
    logs = await asyncio.to_thread(read, cluster, topics, isolation)
    return sorted(value for log in logs.values() for value in log)


def partitions_of(cluster: KafkaCluster, topics: tuple[str, ...]) -> list[tuple[str, int]]:
    address = next(each for each in cluster.brokers if each.is_running).internal_address
    return [
        (str(topic.name), int(partition.partition_index))
        for topic in broker_processes.metadata(address, *topics, timeout=TIMEOUT).topics
        for partition in topic.partitions
    ]


def read(
    cluster: KafkaCluster, topics: tuple[str, ...], isolation: Isolation
) -> dict[tuple[str, int], list[bytes]]:
    """Each partition to its end, or to its first open transaction."""
    places = [Place(*each) for each in partitions_of(cluster, topics)]
    logs: dict[tuple[str, int], list[bytes]] = {place: [] for place in places}
    options = {"isolation.level": isolation}
    for place, value in read_to_end(cluster.bootstrap_servers, places, **options):
        logs[place].append(value)
    return logs


async def nothing_is_open(cluster: KafkaCluster, *topics: str) -> bool:
    """Whether the last stable offset is the end of every partition, as far as brokers say so."""

    def ask() -> bool:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.list_topics(timeout=TIMEOUT)  # unless it is connected, the next step waits for 3 s
        stable, uncommitted = (
            ends(admin, partitions_of(cluster, topics), isolation)
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return stable == uncommitted

    try:
        return await asyncio.to_thread(ask)
    except KafkaException:
        return False


def ends(
    admin: AdminClient, places: list[tuple[str, int]], isolation: IsolationLevel
) -> dict[tuple[str, int], int]:
    wanted = [TopicPartition(*place) for place in places]
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(
        dict.fromkeys(wanted, latest), isolation_level=isolation, request_timeout=10
    )
    return {
        (place.topic, place.partition): future.result(TIMEOUT).offset
        for place, future in futures.items()
    }


async def offset_of(
    cluster: KafkaCluster,
    group: str,
    topic: str,
    partition: int = 0,
    *,
    isolation: Isolation = "read_committed",
) -> int | None:
    """A group's committed offset. With ``read_committed``: when no transaction holds it open."""

    def ask() -> int | None:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "isolation.level": isolation,
            }
        )
        try:
            [found] = consumer.committed([TopicPartition(topic, partition)], TIMEOUT)
            assert found.error is None
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()

    return await asyncio.to_thread(ask)
