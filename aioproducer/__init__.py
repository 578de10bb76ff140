"""aioproducer: the Kafka producer that asyncio deserves."""

from aioproducer import errors
from aioproducer.bulk import OffsetRange, SendReport
from aioproducer.config import ProducerConfig
from aioproducer.errors import (
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    ConfigError,
    DeliveryTimeoutError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    SerializationError,
    UsageError,
    WrongLoopError,
)
from aioproducer.interceptors import ProducerInterceptor
from aioproducer.model import ProducerRecord, RecordMetadata, TopicPartition
from aioproducer.partitioning import (
    Murmur3Partitioner,
    Partitioner,
    Partitions,
    RoundRobinPartitioner,
)
from aioproducer.producer import Producer
from aioproducer.records import acceleration
from aioproducer.serialization import Serializer
from aioproducer.version import __version__

__accelerated__ = acceleration.ACCELERATED
"""Whether the compiled innermost loops are in use."""

__all__ = [
    "BootstrapError",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "ConfigError",
    "DeliveryTimeoutError",
    "IllegalStateError",
    "InvalidPartitionError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaError",
    "MetadataTimeoutError",
    "Murmur3Partitioner",
    "OffsetRange",
    "Partitioner",
    "Partitions",
    "Producer",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerTimeoutError",
    "ProtocolError",
    "RecordMetadata",
    "RecordTooLargeError",
    "RoundRobinPartitioner",
    "SendReport",
    "SerializationError",
    "Serializer",
    "TopicPartition",
    "UsageError",
    "WrongLoopError",
    "__accelerated__",
    "__version__",
    "errors",
]
