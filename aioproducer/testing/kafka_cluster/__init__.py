"""A real Apache Kafka for development and tests: 1 to 3 nodes as child processes.

::

    async with KafkaCluster(brokers=3, config={"min.insync.replicas": 2}) as cluster:
        await cluster.create_topic("orders", partitions=12, replication_factor=3)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            ...
            await cluster.kill_broker(2)

``KafkaCluster(version="2.8.2")`` starts another release than the newest.

It needs Java 17 or newer, and once, to download Kafka, Apache Maven. From the command line:
``python -m aioproducer.testing.kafka_cluster --brokers 3``.
"""

from __future__ import annotations

from aioproducer.testing.kafka_cluster.broker import KafkaBroker
from aioproducer.testing.kafka_cluster.broker_processes import (
    DEFAULT_JVM_OPTIONS,
    KafkaClusterError,
)
from aioproducer.testing.kafka_cluster.cluster import KafkaCluster
from aioproducer.testing.kafka_distribution import KafkaUnavailableError

__all__ = [
    "KafkaCluster",
    "KafkaBroker",
    "KafkaClusterError",
    "KafkaUnavailableError",
    "DEFAULT_JVM_OPTIONS",
]
