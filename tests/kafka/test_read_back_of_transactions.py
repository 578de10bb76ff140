"""``read_back()`` and ``expect()`` on a real Kafka: committed, aborted and open transactions."""

from __future__ import annotations

import pytest

from aioproducer import Producer
from aioproducer.errors import UnknownTopicOrPartitionError
from aioproducer.testing import expect, read_back
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka


async def test_committed_records_alone_unless_asked_otherwise(kafka: KafkaCluster) -> None:
    topic = "read-back-of-transactions"
    await kafka.create_topic(topic, 2, replication_factor=3)
    servers = kafka.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed", partition=0)
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"last", partition=1)
            await expect(topic, bootstrap_servers=servers).has_exactly([b"committed"])
            everything = await read_back(
                topic, bootstrap_servers=servers, isolation_level="read_uncommitted"
            )
            expect(everything).has_exactly([b"committed", b"aborted", b"last"])

    committed = expect(topic, bootstrap_servers=servers, wait=30)
    await committed.has_exactly([b"committed", b"last"])
    with pytest.raises(AssertionError, match="aborted and open transactions are left out"):
        await expect(topic, bootstrap_servers=servers).has(value=b"aborted")


async def test_a_topic_that_is_not_there(kafka: KafkaCluster) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="never-made"):
        await read_back("never-made", bootstrap_servers=kafka.bootstrap_servers)
