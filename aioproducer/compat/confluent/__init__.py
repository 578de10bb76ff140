"""confluent-kafka's producers, implemented by aioproducer.

A program changes one line::

    from aioproducer.compat.confluent import Producer   # was: from confluent_kafka import ...

confluent-kafka need not be installed, and nothing of it is used.
"""

from aioproducer.compat.confluent.aio import AIOProducer
from aioproducer.compat.confluent.cluster_metadata import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TopicPartition,
)
from aioproducer.compat.confluent.errors import KafkaError, KafkaException
from aioproducer.compat.confluent.partitions import consistent, fnv1a, murmur2
from aioproducer.compat.confluent.producer import Producer, SerializingProducer
from aioproducer.compat.confluent.records import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)
from aioproducer.compat.confluent.watch import ThrottleEvent

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AIOProducer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "SerializingProducer",
    "ThrottleEvent",
    "TopicPartition",
    "consistent",
    "fnv1a",
    "murmur2",
]
