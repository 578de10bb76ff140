"""Keyless records of a producer with a rack, on brokers with racks."""

from __future__ import annotations

import uuid

import pytest

from aioproducer import Producer
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.conftest import RACKS

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
