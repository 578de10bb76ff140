"""aioproducer: the Kafka producer that asyncio deserves."""

from aioproducer import errors
from aioproducer.config import ProducerConfig
from aioproducer.errors import (
    AbortableTransactionError,
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    CommitUnconfirmedError,
    ConfigError,
    DeliveryTimeoutError,
    FatalTransactionError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    SerializationError,
    TransactionAbortedError,
    TransactionError,
    UsageError,
    WrongLoopError,
)
from aioproducer.interceptors import ProducerInterceptor
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.partitioning import (
    ConsistentRandomPartitioner,
    Murmur3Partitioner,
    Partitioner,
    Partitions,
    RoundRobinPartitioner,
)
from aioproducer.producer import Producer
from aioproducer.records import acceleration
from aioproducer.send_report import OffsetRange, SendReport
from aioproducer.serialization import Serializer
from aioproducer.version import __version__

__accelerated__ = acceleration.ACCELERATED
"""Whether the compiled innermost loops are in use."""

__all__ = [
    "AbortableTransactionError",
    "BootstrapError",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "CommitUnconfirmedError",
    "ConfigError",
    "ConsistentRandomPartitioner",
    "ConsumerGroupMetadata",
    "DeliveryTimeoutError",
    "FatalTransactionError",
    "IllegalStateError",
    "InvalidOffsetError",
    "InvalidPartitionError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaError",
    "MetadataTimeoutError",
    "Murmur3Partitioner",
    "Node",
    "OffsetAndMetadata",
    "OffsetRange",
    "PartitionInfo",
    "Partitioner",
    "Partitions",
    "Producer",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "ProducerFencedError",
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
    "TransactionAbortedError",
    "TransactionError",
    "TransactionHandle",
    "UsageError",
    "WrongLoopError",
    "__accelerated__",
    "__version__",
    "errors",
]
