"""What is in a topic of the mock cluster, by another client (confluent-kafka's)."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, TopicPartition

from aioproducer.testing.mock_cluster import MockCluster
from tests.spark.waiting import PATIENCE


def read(cluster: MockCluster, topic: str) -> list[Message]:
    """Every record, those of a partition in their order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        places = [TopicPartition(topic, partition, 0) for partition in partitions]
        end = sum(consumer.get_watermark_offsets(place, PATIENCE)[1] for place in places)
        consumer.assign(places)
        found: list[Message] = []
        while len(found) < end:
            batch = consumer.consume(min(10_000, end - len(found)), PATIENCE)
            assert batch
            assert not any(message.error() for message in batch)
            found += batch
        return found
    finally:
        consumer.close()


def values(cluster: MockCluster, topic: str) -> list[bytes | None]:
    """The values alone."""
    return [message.value() for message in read(cluster, topic)]
