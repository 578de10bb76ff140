"""Brokers that are no Apache Kafka, if one runs: its address is in AIOPRODUCER_OTHER_BROKER."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from aioproducer import OffsetAndMetadata, Producer, TopicPartition
from tests.matrix.reading import TIMEOUT, read, until_read, values

SERVERS = os.environ.get("AIOPRODUCER_OTHER_BROKER", "")
SENDING: dict[str, dict[str, Any]] = {
    "acks-0": {"acks": 0, "enable_idempotence": False},
    "acks-1": {"acks": 1, "enable_idempotence": False},
    "acks-all": {"acks": "all", "enable_idempotence": False},
    "idempotent": {},
    "gzip": {"compression_type": "gzip"},
    "snappy": {"compression_type": "snappy"},
    "lz4": {"compression_type": "lz4"},
    "zstd": {"compression_type": "zstd"},
}
RECORDS = 300

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.skipif(not SERVERS, reason="AIOPRODUCER_OTHER_BROKER names no broker"),
]


@pytest.fixture
def topic() -> str:
    """A new one of three partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": SERVERS})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(TIMEOUT)
    return name


@pytest.mark.parametrize("options", SENDING.values(), ids=SENDING.keys())
async def test_records_are_read_in_order(topic: str, options: dict[str, Any]) -> None:
    async with Producer(bootstrap_servers=SERVERS, **options) as producer:
        futures = [
            producer.send(topic, b"%d" % n, key=b"k", headers={"n": b"1"}, partition=n % 3)
            for n in range(RECORDS)
        ]
        await asyncio.gather(*futures)
    logs = await until_read(SERVERS, topic, lambda logs: len(values(logs)) >= RECORDS)
    for partition, log in enumerate(logs):
        assert [(each.key, each.value, each.headers) for each in log] == [
            (b"k", b"%d" % n, (("n", b"1"),)) for n in range(partition, RECORDS, 3)
        ]


async def test_transactions_are_committed_and_aborted(topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=SERVERS, transactional_id=topic) as producer:
        for number in range(4):
            await producer.begin_transaction()
            await producer.send(topic, b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({place: number}, topic)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        found = await producer.committed_offsets(topic, [place])
        assert found == {place: OffsetAndMetadata(2)}
    assert values(await read(SERVERS, topic)) == [b"0", b"2"]
