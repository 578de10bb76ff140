"""Records of a cluster, as another client (confluent-kafka's) reads them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.mock_cluster import MockCluster

PATIENCE = 60.0
Cluster: TypeAlias = KafkaCluster | MockCluster


class ReadRecord(NamedTuple):
    """A record, with its place."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp_ms: int


@contextmanager
def consumer(cluster: Cluster) -> Iterator[Any]:
    """A consumer without a group of its own."""
    # Imported late: where confluent-kafka is missing, tests are skipped, and say why.
    client = importlib.import_module("confluent_kafka").Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"}
    )
    try:
        yield client
    finally:
        client.close()


def read_topic(cluster: Cluster, topic: str) -> list[ReadRecord]:
    """Every record that the cluster still has, those of a partition in their order."""
    with consumer(cluster) as client:
        partitions = client.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        return _read(client, topic, list(partitions))


def read_partition(cluster: MockCluster, topic: str, partition: int = 0) -> list[ReadRecord]:
    """Every record of one partition that the cluster still has: its last 5 MiB."""
    with consumer(cluster) as client:
        return _read(client, topic, [partition])


def read_first(
    cluster: MockCluster, topic: str, count: int, partition: int = 0
) -> list[ReadRecord]:
    """``count`` records from the beginning of a partition."""
    with consumer(cluster) as client:
        client.assign([_place(topic, partition, 0)])
        records = _records(client.consume(count, PATIENCE))
    assert [record.offset for record in records] == list(range(count))
    return records


def values(cluster: MockCluster, topic: str, partition: int | None = None) -> list[bytes | None]:
    """The values of a topic, or of one of its partitions."""
    if partition is None:
        return [record.value for record in read_topic(cluster, topic)]
    return [record.value for record in read_partition(cluster, topic, partition)]


def end_offset(cluster: MockCluster, topic: str, partition: int = 0) -> int:
    """The number of records that the partition ever got."""
    with consumer(cluster) as client:
        return int(client.get_watermark_offsets(_place(topic, partition), PATIENCE)[1])


def count(cluster: MockCluster, topic: str) -> int:
    """The number of records that the topic ever got."""
    with consumer(cluster) as client:
        partitions = client.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        return sum(
            client.get_watermark_offsets(_place(topic, partition), PATIENCE)[1]
            for partition in partitions
        )


def _place(topic: str, partition: int, *offset: int) -> Any:
    return importlib.import_module("confluent_kafka").TopicPartition(topic, partition, *offset)


def _read(client: Any, topic: str, partitions: list[int]) -> list[ReadRecord]:
    marks = {
        partition: client.get_watermark_offsets(_place(topic, partition), PATIENCE)
        for partition in partitions
    }
    total = sum(end - low for low, end in marks.values())
    client.assign([_place(topic, partition, low) for partition, (low, _) in marks.items()])
    records: list[ReadRecord] = []
    while len(records) < total:
        batch = client.consume(min(10_000, total - len(records)), PATIENCE)
        assert batch, f"{len(records)} of {total} records were read"
        records += _records(batch)
    return records


def _records(messages: list[Any]) -> list[ReadRecord]:
    assert not any(message.error() for message in messages)
    return [
        ReadRecord(m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1])
        for m in messages
    ]
