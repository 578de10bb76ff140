"""A Reader before brokers of each release."""

from __future__ import annotations

import pytest

from aioproducer import Producer
from aioproducer.reader import Reader
from aioproducer.testing.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

TOPIC = "read-by-reader"


async def test_records_are_read_with_and_without_transactions(cluster: KafkaCluster) -> None:
    await cluster.create_topic(TOPIC, 2)
    servers = cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers, transactional_id=TOPIC) as producer:
        async with producer.transaction():
            for number in range(100):
                producer.send(TOPIC, b"%d" % number, partition=number % 2, headers={"h": b"v"})
        await producer.begin_transaction()
        await producer.send(TOPIC, b"aborted", partition=0)
        await producer.abort_transaction()
    async with Reader(TOPIC, bootstrap_servers=servers, end="end") as reader:
        found = [record async for record in reader]
        assert len(found) == 101
        assert all(record.headers == (("h", b"v"),) for record in found[:50])
    async with Reader(TOPIC, bootstrap_servers=servers, isolation_level="read_committed") as reader:
        records = aiter(reader)
        values = {(await anext(records)).value for _ in range(100)}
    assert values == {b"%d" % number for number in range(100)}
